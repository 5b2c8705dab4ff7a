"""Numbers that no robot measures are kept as rejected, with a reason that names the place; learning goes on without them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.codec import pack_transition
from tandem.data.intake import Intake
from tandem.data.journal import Journal
from tandem.data.plausibility import believed, believed_rewards, with_ranges
from tandem.data.validation import Validator
from tandem.doctor.diagnosis import diagnose_run
from tandem.envs.registry import make_env, make_expert, spec_for
from tandem.link.inproc import InprocLink
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.run_spec import decide_spec
from tandem.off_policy.sync import train
from tandem.programs.record import play_episode
from tandem.runs.display import Display
from tandem.types import Entry, Spec, Transition
from tests.data.data_samples import SPEC, transition

KNOWN = with_ranges(SPEC, [], all_known=True)
"""`pose` with the scales 0.5, 1 and 2 is believed up to 5 + 100 * 10 scales: 502.5, 1005 and 2010."""


def stored(tmp_path: Path, steps: list[Transition]) -> list[str]:
    """The reasons of the rejected ones, which must be the same whether the steps come packed or not."""
    found = []
    for name, append in (
        ("plain", lambda journal: journal.append(steps)),
        ("packed", lambda journal: Intake(journal).append([(step.source, step.seq, pack_transition(step)) for step in steps])),
    ):
        with Journal.create(tmp_path / f"{name}.db", KNOWN) as journal:
            assert append(journal) == len(steps)
            found.append([row.reason for row in journal.rejected()])
    assert found[0] == found[1]
    return found[0]


def pose(*numbers: float) -> dict[str, np.ndarray]:
    return transition().observation | {"pose": np.array(numbers, np.float32)}


def test_numbers_beyond_what_is_believed_are_rejected_with_their_place(tmp_path: Path) -> None:
    steps = [
        transition(0, observation=pose(502, -1004, 2009)),  # far out, and believed
        transition(1, observation=pose(503, 0, 0)),
        transition(2, next_observation=pose(0, 0, -3e38)),
        transition(3, reward=101.0),  # a return of 0 to 1: a hundred widths beyond
        transition(4, reward=-1e300),
        transition(5, reward=1e300),
    ]
    assert stored(tmp_path, steps) == [
        "observation entry 'pose' has about 5e+02 at [0], beyond the plausible -502.5 to 502.5",
        "next_observation entry 'pose' has about -3e+38 at [2], beyond the plausible -2010 to 2010",
        "reward is about -1e+300, beyond the plausible -100 to 101",
        "reward is about 1e+300, beyond the plausible -100 to 101",
    ]


def test_a_range_is_declared_by_the_space_or_by_the_scale_and_else_not_known() -> None:
    spec = Spec("toy", {"a": Entry((2,), scale=(2.0, 1.0), offset=(10.0, 0.0)), "b": Entry((2,), low=(0.0, None), high=1.0)}, (), 10, 100)
    ranges = with_ranges(spec, [], all_known=False).observation
    assert (ranges["a"].low, ranges["a"].high) == ((0.0, None), (20.0, None)), "a scale of 1 says that nobody knows"
    assert (ranges["b"].low, ranges["b"].high) == ((0.0, None), (1.0, None)), "the second has no lower bound"
    largest = np.finfo(np.float32).max
    assert [side.tolist() for side in believed(ranges["a"])] == [[-2000, -largest], [2020, largest]]
    assert [side.tolist() for side in believed(ranges["b"])] == [[-100, -largest], [101, largest]]
    assert Spec.from_json(json.loads(json.dumps(with_ranges(SPEC, [], all_known=True).to_json()))) == KNOWN
    assert KNOWN.hash == SPEC.hash and not KNOWN.difference(SPEC), "older files and policies fit as before"


def test_the_range_of_a_space_is_taken_over() -> None:
    entry = spec_for("Pendulum-v1").observation["state"]
    assert (entry.low, entry.high) == ((-1.0, -1.0, -8.0), (1.0, 1.0, 8.0))


def test_rewards_are_believed_by_the_return_else_by_the_demonstrations_else_up_to_a_million() -> None:
    unknown = dataclasses.replace(SPEC, return_range=None)
    assert believed_rewards(SPEC) == (-100.0, 101.0) and believed_rewards(unknown) == (-1e6, 1e6)
    shown = [transition(0, reward=-0.5), transition(1, reward=0.0)]
    learned = with_ranges(unknown, shown, all_known=True)
    # a failure may cost ten times what they show, (-5.5, 5), and a hundred widths of 10.5 more are believed
    assert learned.reward_range == (-5.5, 5.0) and believed_rewards(learned) == (-1055.5, 1055.0)
    assert with_ranges(SPEC, shown, all_known=True).reward_range is None, "a range that is declared is not learned"


@pytest.mark.parametrize("task", ["reach", "gear_assembly"])
def test_no_step_of_our_own_tasks_is_rejected(task: str) -> None:
    """The expert, and random actions, which push as hard as the controller can."""
    env, random = make_env(task), np.random.default_rng(0)
    spec, _ = decide_spec(env.spec, [])
    validator = Validator(spec)

    class Pushes:
        name = "pushes"

        def reset(self) -> None:
            self.action = random.choice([-1.0, 1.0], spec.action_dim).astype(np.float32)

        def decide(self, observation: Any, proposed: Any = None) -> tuple[np.ndarray, bool]:
            return self.action, True

    steps = [step for seed in range(5) for operator in (make_expert(task, seed), Pushes()) for step in play_episode(env, operator, seed)]
    assert len(steps) > 100 and [validator.reason(step) for step in steps if validator.reason(step)] == []
    # and by a wide margin: the largest is less than a tenth of what is believed
    for name, entry in spec.observation.items():
        most = max(float(np.abs(step.next_observation[name] / believed(entry)[1]).max()) for step in steps)
        assert most < 0.1, (name, most)


def test_impossible_rows_of_one_source_are_rejected_and_learning_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come while a run learns, from a source of their own, as packed steps of a valid actor do."""
    run, send = tmp_path / "run", InprocLink.send

    def joined_by_another(link: InprocLink, steps: Any) -> None:
        send(link, steps)
        if steps[0].seq == 20:
            Intake(link._journal).append([(row.source, row.seq, pack_transition(row)) for row in impossible(steps[0])])

    monkeypatch.setattr(InprocLink, "send", joined_by_another)
    config = TrainConfig("reach", SACConfig(hidden=(16, 16)), batch_size=16, training_starts=20, steps_per_update=10, max_steps=100)
    train(dataclasses.replace(config, eval_period=0, final_episodes=0, num_envs=2), run, Display("quiet"))
    with Journal.open(run / "journal.db") as journal:
        assert journal.counts().rejected == 1000 and journal.counts().accepted >= 100
        assert journal.rejected_sources() == [("robot 7.0", 1000)]
        assert sum(count for _, count in journal.reasons()) == 1000, "equal reasons are counted together"
    events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    published = [event["hash"] for event in events if event["kind"] == "published"]
    assert len(set(published)) == len(published) >= 8, "every policy differs from the one before"
    evidence = [line for finding in diagnose_run(run)["findings"] if finding["name"] == "steps_rejected" for line in finding["evidence"]]
    assert any("1,000 of them from the source robot 7.0" in line for line in evidence), evidence


def impossible(sound: Transition) -> list[Transition]:
    """Finite, each of them: rewards of plus and minus 1e300, and in two of three rows observations as large as floats go."""
    extreme = {name: np.full(values.shape, 3e38, np.float32) for name, values in sound.observation.items()}
    rows = [dataclasses.replace(sound, source="robot 7.0", seq=n, reward=1e300 * (-1) ** n) for n in range(1000)]
    return [dataclasses.replace(row, observation=extreme) if row.seq % 3 else row for row in rows]
