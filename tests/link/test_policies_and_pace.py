"""Policies go one way and never back; fast actors keep the trainer's pace; people are heard."""

import itertools
import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from link_samples import SPEC, HubProcess, client, make_run, snapshot, step
from proxy import Proxy

from tandem.link.credits import burst
from tandem.link.messages import Command, EpisodeEnd
from tandem.link.trainer_end import TrainerEnd
from tandem.runs.board import Board
from tandem.types import PolicySnapshot
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):
    with HubProcess(make_run(tmp_path_factory.mktemp("hub") / "run"), actor_settings={"random_steps": 7, "seed": 3}) as hub:
        yield hub


@pytest.fixture
def trainer(hub: HubProcess):
    trainer = TrainerEnd(hub.run, SPEC)
    yield trainer
    trainer.close()


versions = itertools.count(1)


def seen(hub: HubProcess, source: str) -> dict:
    return next(actor for actor in hub.api("actors") if actor["source"] == source)


def test_an_actor_gets_the_settings_of_the_run(hub: HubProcess, tmp_path: Path) -> None:
    actor = client(hub, tmp_path)
    welcome = actor.connect()
    assert (
        welcome.settings == {"random_steps": 7, "seed": 3, "actor_steps": 0, "credential": "token", "linger_s": 64 / 2500}
        and welcome.run == (hub.run / "run_id").read_text()
    )
    actor.close()


def test_an_actor_that_joins_late_gets_the_current_policy_at_once(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    version = next(versions)
    trainer.publish(snapshot(version))
    wait_for(lambda: hub.api("status")["policy"]["version"] == version)
    actor = client(hub, tmp_path)
    assert actor.connect().version == version
    assert wait_for(actor.newest_policy, 2).hash == snapshot(version).hash
    actor.close()


def test_the_hub_shows_the_policy_of_an_actor_and_its_lag(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    first = next(versions)
    trainer.publish(snapshot(first))
    actor = client(hub, tmp_path)
    actor.connect()
    policy = wait_for(lambda: actor.newest_policy(first - 1))
    assert seen(hub, actor.source)["version"] == -1 and seen(hub, actor.source)["lag_versions"] is None
    actor.acting_with(policy)
    wait_for(lambda: seen(hub, actor.source)["version"] == first, 0.5, "the hub to be told at once")
    assert seen(hub, actor.source)["policy_hash"] == policy.hash
    assert (seen(hub, actor.source)["lag_versions"], seen(hub, actor.source)["lag_s"]) == (0, 0)
    trainer.publish(snapshot(next(versions)))
    wait_for(lambda: seen(hub, actor.source)["lag_versions"] == 1)
    time.sleep(0.3)
    trainer.publish(snapshot(next(versions)))
    wait_for(lambda: seen(hub, actor.source)["lag_versions"] == 2)
    assert 0.3 <= seen(hub, actor.source)["lag_s"] < 3  # since the first that is newer, not since the last
    actor.acting_with(wait_for(lambda: actor.newest_policy(first + 1)))
    wait_for(lambda: seen(hub, actor.source)["lag_s"] == 0)
    actor.close()


def test_on_a_slow_link_the_newest_policy_wins_and_older_ones_are_left_out(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    with Proxy(hub.port) as proxy:
        actor = client(hub, tmp_path, address=proxy.address)
        actor.connect()
        proxy.bytes_per_s = 4_000_000
        received = []
        last = 0
        for _ in range(20):
            last = next(versions)
            trainer.publish(PolicySnapshot(last, 0, {"w": np.full(100_000, last, np.float32)}))  # 0.1 s each on this link
            time.sleep(0.01)
        published = time.monotonic()
        while not received or received[-1] < last:
            policy = actor.newest_policy(received[-1] if received else -1)
            if policy is not None:
                assert (policy.parameters["w"] == policy.version).all()
                received.append(policy.version)
            time.sleep(0.002)
        assert time.monotonic() - published < 0.8, "it waited behind older ones"  # 20 of them take 2 s on this link
        assert received == sorted(received) and len(received) < 10
        actor.close()


def test_versions_never_go_back(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    actor = client(hub, tmp_path)
    actor.connect()
    older, newest, newer = next(versions), next(versions), next(versions)
    trainer.publish(snapshot(newest))
    wait_for(lambda: actor.status.newest_version == newest)
    trainer.publish(snapshot(older))  # a trainer that was started from an older folder
    time.sleep(0.1)
    assert hub.api("status")["policy"]["version"] == newest
    hub.kill()
    hub.start()  # knows nothing but the file, which holds the older one now
    wait_for(lambda: actor.status.reconnects == 1)
    wait_for(lambda: hub.api("status")["policy"]["version"] == older)
    time.sleep(0.1)
    assert actor.status.newest_version == newest and actor.newest_policy(newest) is None
    trainer.publish(snapshot(newer))
    wait_for(lambda: actor.status.newest_version == newer)
    actor.close()


def test_a_damaged_policy_file_is_ignored(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    actor = client(hub, tmp_path)
    actor.connect()
    good, bad, better = next(versions), next(versions), next(versions)
    trainer.publish(snapshot(good))
    wait_for(lambda: actor.status.newest_version == good)
    path = hub.run / "policy.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    trainer._board["policy_version"] = bad  # "look"
    time.sleep(0.1)
    assert hub.api("status")["policy"]["version"] == good
    trainer.publish(snapshot(better))
    wait_for(lambda: actor.status.newest_version == better)
    actor.close()


class Trainer(threading.Thread):
    """A trainer that learns nothing, at the pace of a real one."""

    def __init__(self, run: Path, u: float, starts: int) -> None:
        super().__init__()
        self.end, self.board = TrainerEnd(run, SPEC), Board(run)
        self.u, self.starts, self.learner_step = u, starts, 0
        self.stopping = False

    def run(self) -> None:
        while not self.stopping:
            self.end.receive()
            steps = self.board["accepted"]
            if steps >= self.starts and self.learner_step <= (steps - self.starts) * self.u + 1:
                self.learner_step += 1
            else:
                time.sleep(0.0005)
            self.end.beat(learner_step=self.learner_step, phase="training", steps_before=self.starts, updates_per_actor_step=self.u)
        self.end.close()
        self.board.close()


@pytest.mark.parametrize("actors", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("u", [0.125, 1.0, 4.0])
def test_fast_actors_never_exceed_what_is_allowed_and_never_stand_still(
    hub: HubProcess, tmp_path: Path, u: float, rows: int, actors: int
) -> None:
    before = hub.api("status")["journal"]["accepted"]
    trainer = Trainer(hub.run, u, before + 20)
    trainer.end.beat(learner_step=0, phase="filling", steps_before=trainer.starts, updates_per_actor_step=u)
    stepped, lock = [0], threading.Lock()
    limit = burst(rows * actors, u)

    def live(actor) -> None:
        for number in range(400 // (rows * actors)):
            assert actor.may_step(10), f"stands still: {stepped[0]} stepped, {trainer.learner_step} learned"
            with lock:
                stepped[0] += rows
                assert before + stepped[0] <= trainer.starts + trainer.learner_step / u + limit
            actor.send([step(number, f"{actor.source}.{row}") for row in range(rows)])

    ends = [client(hub, tmp_path, rows=rows, pace="fast") for _ in range(actors)]
    for end in ends:
        end.connect()
    wait_for(lambda: hub.api("status")["actors"] == actors)  # R is known before the first step
    problems: list[BaseException] = []
    threads = [threading.Thread(target=lambda end=end: _noting(problems, live, end)) for end in ends]
    trainer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [end.close() for end in ends] == [0] * actors
    trainer.stopping = True
    trainer.join()
    assert not problems, problems
    assert hub.api("status")["journal"]["accepted"] == before + stepped[0]


def _noting(problems: list[BaseException], function, *arguments) -> None:
    try:
        function(*arguments)
    except BaseException as problem:
        problems.append(problem)


def test_without_a_trainer_fast_actors_hold_and_real_time_ones_go_on(tmp_path: Path) -> None:
    with HubProcess(make_run(tmp_path / "run")) as hub:
        fast, realtime = client(hub, tmp_path / "spool", pace="fast"), client(hub, tmp_path / "spool", pace="realtime")
        for actor in (fast, realtime):
            actor.connect()
        assert not fast.may_step(0.2) and realtime.may_step(0)
        assert hub.api("status")["trainer"]["alive"] is False
        fast.close()
        realtime.close()


def test_commands_reach_the_trainer_the_actors_or_one_of_them(hub: HubProcess, trainer: TrainerEnd, tmp_path: Path) -> None:
    left, right = client(hub, tmp_path, name="left"), client(hub, tmp_path, name="right")
    for actor in (left, right):
        actor.connect()
    assert set(hub.api("command", {"command": "pause"})["told"]) == {"trainer", left.source, right.source}
    assert hub.api("command", {"command": "label", "to": "right", "detail": {"success": True}})["told"] == [right.source]
    assert hub.api("command", {"command": "checkpoint"})["told"] == ["trainer"]
    assert hub.api("command", {"command": "stop", "to": "nobody"})["told"] == []
    left.command(Command("evaluate", "trainer", {}))  # from an actor's end
    right.command(Command("take_over", left.source, {}))
    heard: dict[str, list[str]] = {"trainer": [], "left": [], "right": []}
    ends = {"trainer": trainer, "left": left, "right": right}

    def all_heard() -> bool:
        for name, end in ends.items():
            heard[name] += [command.command for command in end.commands()]
        return [len(heard[name]) for name in ends] == [3, 2, 2]

    wait_for(all_heard, what=f"the commands, heard so far: {heard}")
    assert heard == {"trainer": ["pause", "checkpoint", "evaluate"], "left": ["pause", "take_over"], "right": ["pause", "label"]}
    left.close()
    right.close()


def test_commands_for_an_earlier_trainer_are_ignored(hub: HubProcess) -> None:
    hub.api("command", {"command": "stop", "to": "trainer"})
    trainer = TrainerEnd(hub.run, SPEC)
    assert trainer.commands() == []
    hub.api("command", {"command": "resume", "to": "trainer"})
    assert [command.command for command in trainer.commands()] == ["resume"]
    trainer.close()


def test_the_end_of_an_episode_is_stored_after_its_steps(hub: HubProcess, tmp_path: Path) -> None:
    actor = client(hub, tmp_path)
    actor.connect()
    source = f"{actor.source}.0"
    actor.send([step(0, source), step(1, source, terminated=True)])
    actor.episode_end(EpisodeEnd(source, 0, 2, kept=False, success=True))
    assert actor.close() == 0
    file = hub.run / "episodes.jsonl"
    noted = [json.loads(line) for line in wait_for(lambda: file.exists() and file.read_text()).splitlines()]
    assert {name: noted[-1][name] for name in ("source", "episode", "steps", "kept", "success")} == {
        "source": source,
        "episode": 0,
        "steps": 2,
        "kept": False,
        "success": True,
    }
