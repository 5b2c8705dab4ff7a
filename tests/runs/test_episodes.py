"""What is reported of an episode, counted by hand."""

import numpy as np

from tandem.runs.episodes import WINDOW, EpisodeLog
from tandem.types import Transition

NOTHING = {"q": np.zeros(1, np.float32)}


def step(reward: float = 0.0, *, last: bool = False, intervened: bool = False, success: bool = False, source: str = "a", episode: int = 0):
    return Transition(NOTHING, np.zeros(1, np.float32), reward, NOTHING, last, False, intervened, success, episode=episode, source=source)


def test_interventions_are_counted_in_segments_and_in_steps() -> None:
    log = EpisodeLog(control_hz=10)
    person = [False, True, True, False, True, False]  # two segments, three steps
    log.add([step(intervened=p) for p in person] + [step(1.0, last=True, success=True)])
    metrics = log.metrics()
    assert metrics["environment/episode/intervention_count"] == 2
    assert metrics["environment/episode/intervention_steps"] == 3
    assert metrics["environment/episode/r"] == 1.0 and metrics["environment/episode/l"] == 7
    assert metrics["environment/episode/t"] == 0.7 and metrics["environment/episode/success"] == 1.0
    assert metrics["environment/episode/intervention_share"] == 3 / 7
    assert metrics["environment/episode/success_alone"] == 0.0 and metrics["environment/episode/success_helped"] == 1.0


def test_interleaved_sources_are_kept_apart() -> None:
    log = EpisodeLog(control_hz=10)
    log.add(
        [step(source="a"), step(source="b"), step(source="b", last=True), step(source="a"), step(1.0, source="a", last=True, success=True)]
    )
    assert log.finished == 2 and log.success_rate == 0.5
    assert log.metrics()["environment/episode/l"] == 2.5  # (3 + 2) / 2


def test_success_is_that_of_the_last_episodes() -> None:
    log = EpisodeLog(control_hz=10)
    assert log.success_rate is None and log.metrics() == {}
    for episode in range(2 * WINDOW):
        log.add([step(last=True, success=episode >= WINDOW, episode=episode)])
    assert log.success_rate == 1.0


def test_success_alone_and_with_help_add_up_to_success() -> None:
    log = EpisodeLog(control_hz=10)
    for episode, (helped, success) in enumerate([(True, True), (True, False), (False, True), (False, False), (False, True)]):
        log.add([step(intervened=helped, episode=episode), step(last=True, success=success, episode=episode)])
    metrics = {name.rsplit("/", 1)[1]: value for name, value in log.metrics().items()}
    # 5 episodes: 2 succeeded alone, 1 with help; 2 of their 10 steps were a person's
    assert (metrics["success_alone"], metrics["success_helped"], metrics["success"]) == (2 / 5, 1 / 5, 3 / 5)
    assert metrics["intervention_share"] == 2 / 10 and log.in_words == "40% alone and 20% with a person's help, of the last 20"


def test_an_episode_that_was_thrown_away_says_nothing() -> None:
    log = EpisodeLog(control_hz=10)
    log.add([step(last=True, success=True, episode=0), step(last=True, episode=1), step(episode=2)])
    log.forget({("a", 1), ("a", 2)})
    assert log.success_rate == 1.0
    log.add([step(last=True, episode=2)])  # had it stayed open, this would be its second step
    assert log.metrics()["environment/episode/l"] == 1.0
