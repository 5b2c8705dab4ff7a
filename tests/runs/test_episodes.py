"""What is reported of an episode, counted by hand."""

import numpy as np

from tandem.codec import pack_transition, unpack_transition
from tandem.runs.episodes import WINDOW, BatchEpisodes, EpisodeLog
from tandem.types import Transition

NOTHING = {"q": np.zeros(1, np.float32)}


def step(
    reward: float = 0.0, *, last: bool = False, intervened: bool = False, success: bool | None = False, source: str = "a", episode: int = 0
):
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
    assert metrics["intervention_share"] == 2 / 10 and log.in_words == ("success", "40% alone and 20% with a person's help, of the last 20")


def test_an_episode_that_was_thrown_away_says_nothing() -> None:
    log = EpisodeLog(control_hz=10)
    log.add([step(last=True, success=True, episode=0), step(last=True, episode=1), step(episode=2)])
    log.forget({("a", 1), ("a", 2)})
    assert log.success_rate == 1.0
    log.add([step(last=True, episode=2)])  # had it stayed open, this would be its second step
    assert log.metrics()["environment/episode/l"] == 1.0


def test_without_reported_success_the_return_is_shown() -> None:
    log = EpisodeLog(control_hz=10)
    assert log.success_known and log.in_words == ("success", "-"), "nobody knows before the first end"
    log.add([step(-3.0, success=None), step(-2.0, last=True, success=None), step(-7.0, last=True, success=None, episode=1)])
    assert not log.success_known and log.success_rate is log.alone is log.without_help is None
    assert log.in_words == ("return", "-6.00, mean of the last 20")  # (-5 - 7) / 2
    assert not [name for name in log.metrics() if "success" in name] and log.metrics()["environment/episode/r"] == -6.0


def test_an_environment_that_names_success_only_when_it_happens_reports_it() -> None:
    log = EpisodeLog(control_hz=10)
    log.add([step(last=True, success=None, episode=0), step(1.0, last=True, success=True, episode=1)])
    assert log.success_rate == 0.5 and log.metrics()["environment/episode/success"] == 0.5
    log.add([step(last=True, success=None, episode=2 + n) for n in range(WINDOW)])
    assert log.success_rate == 0.0, "and it stays known when the success is 20 episodes ago"


def test_steps_stored_before_success_could_be_unknown_do_not_hide_it_for_ever() -> None:
    """An older run of such an environment, resumed: its stored steps say False, the new ones None."""
    log = EpisodeLog(control_hz=10)
    log.add([step(last=True, episode=n) for n in range(WINDOW)])
    assert log.success_rate == 0.0
    log.add([step(last=True, success=None, episode=WINDOW + n) for n in range(WINDOW)])
    assert log.success_rate is None


def test_a_stored_step_says_whether_success_is_known() -> None:
    for success in (True, False, None):
        record = pack_transition(step(success=success, last=True))
        assert unpack_transition(record, "a", 0).success is success


def test_many_environments_without_reported_success_log_none() -> None:
    ended, none = np.array([True, True]), np.zeros(2, bool)
    silent, telling = BatchEpisodes(2), BatchEpisodes(2)
    silent.add(np.array([-1.0, -3.0]), ended, none, success_known=False)
    telling.add(np.array([-1.0, -3.0]), ended, none)
    assert silent.metrics() == {"Train/mean_reward": -2.0, "Train/mean_episode_length": 1.0}
    assert telling.metrics()["Train/mean_success"] == 0.0
    resumed = BatchEpisodes(2)
    resumed.restore(telling.state())
    assert resumed.metrics() == telling.metrics()
    silent.add(np.zeros(2), ended, np.array([False, True]), success_known=False)
    assert silent.metrics()["Train/mean_success"] == 0.25, "one success is enough to know"
