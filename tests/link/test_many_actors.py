"""Many actors at one hub: it asks them for fewer, larger messages, and its one writer stores each step once, in order."""

import json
import resource
import time
from pathlib import Path

import pytest
from link_samples import SPEC, HubProcess, assert_each_once_in_order, client, make_run, step, stored

from benchmarks.link import Processes
from benchmarks.swarm import Order, serve_swarm
from tandem.link.hub_config import MESSAGES_PER_S, HubConfig
from tandem.link.listening import files_for
from tandem.link.trainer_end import TrainerEnd
from tests.waiting import wait_for


@pytest.mark.parametrize(("most", "waits_s"), [(64, 0.1), (MESSAGES_PER_S, 1.0)])
def test_steps_of_a_real_time_actor_wait_for_others_the_longer_the_more_actors_there_may_be(
    most: int, waits_s: float, tmp_path: Path
) -> None:
    with HubProcess(make_run(tmp_path / "run"), max_actors=most) as hub:
        actor = client(hub, tmp_path / "spool")
        actor.connect()
        took = []
        for seq in range(2):  # the first may find a report to travel with
            began = time.monotonic()
            actor.send([step(seq, actor.source)])
            wait_for(lambda: not actor.status.unacknowledged, 10, "it is stored")
            took.append(time.monotonic() - began)
        actor.close()
    if waits_s > 0.5:
        assert max(took) > 0.3, "it waited, but for the report that comes every second"
    else:
        assert min(took) < 0.3


def test_few_actors_wait_no_longer_than_before() -> None:
    assert HubConfig().linger_s < 0.1 < HubConfig(max_actors=1000).linger_s


def test_256_actors_and_a_hub_that_dies_twice_each_step_once_in_order_also_for_the_trainer(tmp_path: Path) -> None:
    """All of them have messages under way when it dies, and send them again. A trainer reads meanwhile, by its bookmark."""
    run, actors, steps = make_run(tmp_path / "run"), 256, 100
    witness, trainer, received = tmp_path / "light.json", TrainerEnd(run, SPEC), []
    with HubProcess(run, max_actors=actors, durability="process") as hub:
        swarm = Processes(serve_swarm, [(hub.address, hub.token, SPEC, [f"light {number}" for number in range(actors)], witness)])
        swarm.send(Order(steps, hz=25.0))
        for share in (0.25, 0.6):
            wait_for(lambda share=share: _receive(trainer, received) > share * actors * steps, 60, "the hub is in the middle of it")
            hub.kill()
            hub.start()
        swarm.results()
        wait_for(lambda: _receive(trainer, received) >= actors * steps, 10, "the trainer has them all")
        swarm.close()
    trainer.close()
    assert received == stored(run), "a reader with a bookmark misses no row, and gets none twice"
    assert_each_once_in_order(run, dict.fromkeys(json.loads(witness.read_text()), steps))


def test_a_hub_for_many_actors_may_open_as_many_files(tmp_path: Path) -> None:
    """Most systems allow a process 1,024 unless it asks for more; the actors beyond that were never answered."""
    run, actors = make_run(tmp_path / "run"), 300
    with HubProcess(run, max_actors=actors, open_files=256) as hub:
        names = [f"light {number}" for number in range(actors)]
        swarm = Processes(serve_swarm, [(hub.address, hub.token, SPEC, names, tmp_path / "light.json")])
        assert hub.api("status")["actors"] == actors
        swarm.close()


def test_a_system_that_allows_fewer_files_is_told_of_before_the_first_actor_is_missing() -> None:
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        pytest.skip("this system allows any number")
    try:
        assert f"allows this process {most:,} open files, and {most:,} actors need" in files_for(most)
        assert files_for(10) == ""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))


def _receive(trainer: TrainerEnd, received: list[tuple[str, int]]) -> int:
    received += [(step.source, step.seq) for step in trainer.receive()]
    return len(received)
