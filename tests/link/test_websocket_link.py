"""Steps one way and policies the other, through a real hub process and real sockets."""

from pathlib import Path

import pytest
from link_samples import SPEC, HubProcess, assert_each_once_in_order, client, make_run, snapshot, step

from tandem.link.trainer_end import TrainerEnd
from tests.waiting import wait_for


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run")


@pytest.fixture
def hub(run: Path):
    with HubProcess(run) as hub:
        yield hub


def test_steps_reach_the_trainer_and_policies_the_actor(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    trainer, actor = TrainerEnd(run, SPEC), client(hub, tmp_path / "spool")
    try:
        assert actor.connect().task == "toy"
        assert actor.newest_policy() is None
        trainer.publish(snapshot(1))
        policy = wait_for(actor.newest_policy, what="the policy")
        assert policy.version == 1 and policy.hash == snapshot(1).hash
        actor.acting_with(policy)
        for number in range(100):
            actor.send([step(number)])
        received = []
        wait_for(lambda: received.extend(trainer.receive()) or len(received) == 100, what="100 steps")
        assert [t.seq for t in received] == list(range(100))
        [seen] = wait_for(lambda: [a for a in hub.api("actors") if a["version"] == 1], what="the hub to know what it acts with")
        assert seen["policy_hash"] == policy.hash and seen["lag_versions"] == 0
        assert actor.close() == 0
        assert list((tmp_path / "spool").iterdir()) == []
        assert_each_once_in_order(run, {"a": 100})
    finally:
        actor.close()
        trainer.close()
    assert hub.stop() == 0


def test_a_hub_that_is_killed_and_started_again_gets_every_step_once_and_in_order(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    actor = client(hub, tmp_path / "spool")
    actor.connect()
    for number in range(3000):
        actor.send([step(number)])
        if number in (500, 1500):
            hub.kill()
        if number in (1000, 2000):
            hub.start()
    assert actor.close(drain_s=20) == 0
    assert_each_once_in_order(run, {"a": 3000})


def test_the_spool_of_a_killed_actor_is_sent_by_the_next_one_under_its_old_source(hub: HubProcess, run: Path, tmp_path: Path) -> None:
    first = client(hub, tmp_path / "spool")
    first.connect()
    hub.kill()
    first.send([step(number, "old") for number in range(50)])
    assert first.close(drain_s=0) == 50
    hub.start()
    second = client(hub, tmp_path / "spool")
    second.connect()
    second.send([step(number, "new") for number in range(10)])
    wait_for(lambda: second.status.left_behind == 0, what="the spool to be drained")
    assert second.close() == 0
    assert list((tmp_path / "spool").iterdir()) == []
    assert_each_once_in_order(run, {"old": 50, "new": 10})
