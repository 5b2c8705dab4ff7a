"""A hub for many actors asks them for fewer, larger messages: a message costs it as much as ten steps."""

import time
from pathlib import Path

import pytest
from link_samples import HubProcess, client, make_run, step

from tandem.link.hub_config import MESSAGES_PER_S, HubConfig
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
