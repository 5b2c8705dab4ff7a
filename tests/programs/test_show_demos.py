"""`tandem demos show` and `replay`: a page that a browser opens, and a recorded episode done again from its recorded start."""

import dataclasses
import re
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from benchmarks.demo_faults import SPEC, acted, episodes, write
from tandem.agents.sac_start import agent_for
from tandem.cli import run
from tandem.data.demos import DemoWriter, read_demos
from tandem.data.figures import measure
from tandem.data.formats.kinds import open_any
from tandem.data.journal import Journal
from tandem.doctor.records import load_run
from tandem.doctor.values import read_critics, values_in
from tandem.envs.registry import make_env, make_expert
from tandem.errors import ConfigError, SpecMismatch
from tandem.layouts import Layout
from tandem.off_policy.sync import train
from tandem.programs.demos import ACTIONS
from tandem.programs.own_episodes import own_episodes
from tandem.programs.record import record_demos
from tandem.programs.reward import ACTIONS as REWARD_ACTIONS
from tandem.runs.checkpoint import newest_checkpoint, read_checkpoint, write_policy
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import PolicySnapshot
from tests.doctor.doctor_samples import SMALL


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_demos(make_env("reach"), make_expert("reach", 0), 4, tmp_path_factory.mktemp("reach"), seed=7)


def test_a_page_has_all_episodes_films_and_curves(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.db", episodes(3, length=12))
    assert run("demos", ["show", str(path), "--episodes", "1", "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "3 episodes" in page and "Episode 1:" in page and "Episode 0:" not in page and "script" not in page
    assert page.count("<svg") == 1 + 1 + 7 + 14, "lengths, reward, actions, numbers"
    assert {film.name for film in (tmp_path / "page").glob("*.mp4")} == set(re.findall(r'src="([^"]+)"', page)) and "episode_1_left" in page


def test_what_the_critics_of_a_run_say_is_drawn_beside_the_returns(reach: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the page and as a picture; critics by NumPy say what those of the run say."""
    config = replace(SMALL, demos=(reach,), max_steps=30, decision_steps=2)
    train(config, tmp_path / "run", Display("quiet"))
    assert run("demos", ["show", str(reach), "--run", str(tmp_path / "run"), "--episodes", "0:2", "--out", str(tmp_path / "page")]) == 0
    page, shown = (tmp_path / "page" / "index.html").read_text(), capsys.readouterr().out
    assert "Values along the demonstrations" in page and page.count("the return that followed") == 2 + 1
    assert "where a demonstration begins: Q" in shown and "more than random ones" in shown
    with Image.open(tmp_path / "page" / "values.png") as picture:
        assert picture.size == (640, 18 + 2 * 200)

    asked = ["show", str(reach), "--run", str(tmp_path / "run"), "--policy", str(tmp_path / "run"), "--episodes", "1"]
    assert run("demos", [*asked, "--out", str(tmp_path / "beside")]) == 0
    page, shown = (tmp_path / "beside" / "index.html").read_text(), capsys.readouterr().out
    said = re.findall(r"the policy, from the same start: (\d+) steps, .*; it goes another way from step (\d+) on", shown)
    assert len(said) == 1 and int(said[0][1]) > 0, "it begins where the demonstration began"
    assert "Q of what was done" in page and page.count(">policy</span>") == 1 + 3 + len(measure_channels(reach)) + 1

    assert run("demos", ["check", str(reach), "--run", str(tmp_path / "run")]) == 0
    assert "steps in the mean; the discount 0.97^" in capsys.readouterr().out, "the run's own discount"

    folder = RunFolder.open(tmp_path / "run")
    critics, settings = read_critics(folder, folder.settings_of("rlpd")), folder.settings_of("rlpd")
    assert critics is not None
    with open_any(reach) as opened:
        steps = next(iter(opened.episodes()))
        [values] = values_in(opened, critics, folder.spec, settings, [0])
    assert values.length == len(steps) and values.steps.tolist() == list(range(len(steps)))
    np.testing.assert_allclose(values.returns, [0.97 ** (len(steps) - 1 - t) for t in range(len(steps))], rtol=1e-5)
    agent = agent_for(config.agent, folder.spec)
    state = agent.from_arrays(agent.init(0), _newest(folder))
    action = np.mean([step.action for step in steps[:2]], axis=0)
    pair = np.concatenate([Layout(folder.spec).flatten(steps[0].observation), action])[None].astype(np.float32)
    assert values.q[0] == pytest.approx(float(np.asarray(state.critic(jnp.asarray(pair))).mean()), abs=1e-5)
    [seen] = load_run(tmp_path / "run").values[:1]
    np.testing.assert_allclose(seen.q, values.q, rtol=1e-6)


def measure_channels(file: Path) -> tuple[str, ...]:
    with open_any(file) as opened:
        return measure(opened.spec, [], pictures=False).channels


def test_a_policy_that_cannot_begin_there_is_shown_by_its_newest_episode_without_help(reach: Path, tmp_path: Path) -> None:
    """Of a file without a seed, as a robot's: the journal has three episodes, the last of them with a person's help."""
    steps = read_demos(reach).episodes()
    with DemoWriter(tmp_path / "unseeded", read_demos(reach).spec) as writer:
        writer.add(steps[0])
        unseeded = writer.finish()
    spec = make_env("reach").spec
    folder = RunFolder.create(tmp_path / "run", "rlpd", SMALL, spec)
    snapshot = PolicySnapshot(1, 0, agent_for(SMALL.agent, spec).policy_parameters(agent_for(SMALL.agent, spec).init(0)))
    write_policy(folder.latest_policy, snapshot, spec)
    with open_any(unseeded) as opened:
        with pytest.raises(ConfigError, match="to compare with"):
            own_episodes(folder.path, opened, {0: steps[0]})
        with Journal.create(folder.journal, spec) as journal:
            for number, episode in enumerate(steps[:3]):
                journal.append([dataclasses.replace(s, source="robot", intervened=number == 2, seq=100 * number + s.step) for s in episode])
        found = own_episodes(folder.path, opened, {0: steps[0]})[0]
    assert "another start" in found.start and [step.seq for step in found.steps] == [100 + n for n in range(len(steps[1]))]


def _newest(folder: RunFolder) -> dict[str, np.ndarray]:
    arrays = read_checkpoint(newest_checkpoint(folder.checkpoints)).agent
    return {name: array for name, array in arrays.items() if not name.startswith("good/")}


def test_a_run_without_critics_and_demonstrations_of_another_task_are_refused(reach: Path, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "rlpd", replace(SMALL, demos=(reach,)), make_env("reach").spec)
    folder.checkpoints.mkdir(exist_ok=True)
    with pytest.raises(ConfigError, match="no critics to look at: no checkpoint yet"):
        run("demos", ["show", str(reach), "--run", str(tmp_path / "run"), "--out", str(tmp_path / "page")])
    with pytest.raises(SpecMismatch, match="is not of the task of"):
        other = write(tmp_path / "mine.db", episodes(1, length=12))
        run("demos", ["show", str(other), "--run", str(tmp_path / "run"), "--out", str(tmp_path / "page")])


def test_only_the_numbers_that_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.db", episodes(1, length=12))
    assert run("demos", ["show", str(path), "--channels", "force", "pose[1:3]", "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert re.findall(r"<figcaption>((?:force|pose|goal)\S*)", page) == ["pose[1]", "pose[2]", "force[0]", "force[1]", "force[2]"]
    with pytest.raises(ConfigError, match="no number is called torque"):
        run("demos", ["show", str(path), "--channels", "torque", "--out", str(tmp_path / "page")])


def test_a_name_from_outside_is_text_on_the_page(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.db", episodes(1, length=5), dataclasses.replace(SPEC, task="<script>alert(1)</script>"))
    run("demos", ["show", str(path), "--out", str(tmp_path / "page")])
    assert "<script>" not in (tmp_path / "page" / "index.html").read_text()


def test_a_recorded_episode_is_repeated_exactly(reach: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demos", ["replay", str(reach), "2", "--out", str(tmp_path), "--no-film"]) == 0
    shown = capsys.readouterr().out
    assert "start: exactly as recorded (seed 7, attempt 2)" in shown and "the largest difference is 0 of a range" in shown
    assert (tmp_path / "index.html").exists()


def test_where_it_departs_is_said_for_every_number(reach: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From step 2 on, other actions than those that were executed."""
    recording = read_demos(reach)
    steps = max(recording.episodes(), key=len)
    number = recording.episodes().index(steps)
    wrong = acted(recording.episodes(), lambda n, t, action: -action if n == number and t >= 2 else action)
    with DemoWriter(tmp_path, recording.spec, seed=7) as writer:
        for each in wrong:
            writer.add(each)
        path = writer.finish()
    run("demos", ["replay", str(path), str(number), "--out", str(tmp_path), "--no-film"])
    shown = capsys.readouterr().out
    assert "it departs from the recording at step 3" in shown and "tcp_position" in shown


def test_another_environment_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.db", episodes(1, length=5))
    with pytest.raises(SpecMismatch, match="cannot be replayed in 'reach'"):
        run("demos", ["replay", str(path), "0", "--task", "reach", "--no-film"])
    with pytest.raises(ConfigError, match="has no episode 9"):
        run("demos", ["replay", str(path), "9"])


@pytest.mark.parametrize(("command", "name"), [*(("demos", name) for name in ACTIONS), *(("reward", name) for name in REWARD_ACTIONS)])
def test_help_says_something_about_every_option(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(command, [name, "--help"])
    shown = capsys.readouterr().out
    assert f"usage: tandem {command} {name}" in shown
    options = [part for part in re.split(r"\n(?=  \S)", shown) if part.startswith(("  -", "  FILE", "  EPISODE"))]
    assert len(options) >= 2
    for option in options:
        said = re.sub(r"\((default|required|fixed|repeatable)[^)]*\)|\{[^}]*\}\S*|-{1,2}[a-z][\w.-]*,?|\b[A-Z]+\b", "", option)
        assert len(re.findall(r"[a-z]{2,}", said)) >= 2, f"nothing is said about: {option}"
    assert run(command, []) == 0 and name in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no action 'chek'; there are"):
        run(command, ["chek"])
