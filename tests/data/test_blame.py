"""Steps before a take-over are known as such in a batch, with where and how the person took over."""

import numpy as np
import pytest
from data_samples import SPEC, transition

from tandem.data.blame import BlameRows
from tandem.data.mixing import Mixture, store
from tandem.data.replay import Replay, Returns
from tandem.types import Blamed, Transition


def steps(who: str, tag: str = "", episode: int = 0) -> list[Transition]:
    """An episode: `p` is a step of the policy, `h` one of a person. The action tells each step apart."""
    return [
        transition(
            number,
            seq=100 * episode + number,
            step=number,
            episode=episode,
            action=np.full(2, number / 10, np.float32),
            intervened=one == "h",
            policy_version=1,
            tag=tag if one == "h" else "",
        )
        for number, one in enumerate(who)
    ]


def replay(back: int, *episodes: list[Transition], n_step: int = 1, discount: float = 1.0) -> Replay:
    made = Replay(SPEC, 50, n_step, discount)
    made.blame = BlameRows(50, back)
    for episode in episodes:
        made.extend(episode)
    return made


def blamed(made: Replay, *rows: int) -> Blamed:
    found = made.rows(np.array(rows)).blamed
    assert found is not None
    return found


def weights(made: Replay) -> list[float]:
    return [round(float(weight), 3) for weight in blamed(made, *range(len(made))).weights]


def test_the_policys_steps_before_a_take_over_are_blamed_less_the_longer_ago_they_are() -> None:
    # exp(-3 k / 3): 1, 0.368, 0.135; nothing before them, nothing of the person's, nothing after
    assert weights(replay(3, steps("pppphhp"))) == [0, 0.135, 0.368, 1, 0, 0, 0]
    assert weights(replay(1, steps("pppphhp"))) == [0, 0, 0, 1, 0, 0, 0]


def test_only_steps_since_the_last_correction_and_of_the_same_episode_are_blamed() -> None:
    assert weights(replay(3, steps("phph"))) == [1, 0, 1, 0]
    assert weights(replay(3, steps("pp"), steps("hh", episode=1))) == [0, 0, 0, 0], "taken over before the policy did anything"
    one, two = steps("pppp"), steps("pphh", episode=1)
    mixed = [step for pair in zip(one, two, strict=True) for step in pair]  # two robots at once
    assert weights(replay(3, mixed)) == [0, 0.368, 0, 1, 0, 0, 0, 0]


def test_a_take_over_just_because_blames_nothing_also_when_that_is_said_late() -> None:
    assert weights(replay(3, steps("pph", tag="just because"))) == [0, 0, 0]
    assert weights(replay(3, steps("pph", tag="danger"))) == [0.368, 1, 0]
    said_late = steps("pphhhp", tag="just because")
    said_late[2:4] = steps("pphh")[2:4]
    assert weights(replay(3, said_late)) == [0] * 6


def test_a_batch_shows_where_and_how_the_person_took_over() -> None:
    made = replay(2, steps("ppphhp"))
    found = blamed(made, 1, 2, 5)
    # of rows 1 and 2 the take-over in row 3; row 5 stands for itself
    np.testing.assert_allclose(found.actions[:, 0], [0.3, 0.3, 0.5])
    np.testing.assert_array_equal(found.observations, made.rows(np.array([3, 3, 5])).observations)


def test_a_penalty_is_summed_and_discounted_as_a_reward_is() -> None:
    made = replay(1, steps("pppph"), n_step=3, discount=0.5)
    # the penalty is on row 3: three steps from row 1 on it counts 0.25, from row 2 on 0.5
    assert weights(made) == [0, 0.25, 0.5, 1, 0]


def test_blame_moves_with_its_rows_when_an_episode_is_thrown_away() -> None:
    made = replay(2, steps("ppph"), steps("pph", episode=1))
    made.forget([("robot", 0)])
    made.extend(steps("pppp", episode=2))  # where the take-over was before it moved
    assert weights(made) == [0.223, 1, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(blamed(made, 0, 1).actions[:, 0], [0.2, 0.2])


def test_a_row_that_is_written_over_is_blamed_no_more() -> None:
    made = Replay(SPEC, 4)
    made.blame = BlameRows(4, 2)
    made.extend(steps("ppph") + steps("pp", episode=1))
    assert weights(made) == [1, 0, 0, 0]  # rows 2 and 3 of the first episode, then two new ones


def test_demonstrations_and_own_steps_are_side_by_side_in_a_batch() -> None:
    online, demos = replay(2), replay(2)
    returns = Returns(1.0)
    for number, step in enumerate(steps("pphh")):
        store(step, number, online, demos, returns)
    batch = Mixture(demos, online, 40).sample(np.random.default_rng(0), 2)
    assert batch.blamed is not None and batch.blamed.weights.shape == (2, 40) and batch.blamed.actions.shape == (2, 40, 2)
    found = {round(float(weight), 3) for weight in batch.blamed.weights.ravel()}
    assert not batch.blamed.weights[:, :20].any() and found == {0.0, 0.223, 1.0}
    assert batch.actions.shape == (2, 40, 2) and batch.switches is None
    plain = Mixture(Replay(SPEC, 4), Replay(SPEC, 4), 2)
    plain.online.extend(steps("p"))
    assert plain.sample(np.random.default_rng(0), 1).blamed is None


@pytest.mark.parametrize("back", [1, 5])
def test_every_episode_is_blamed_for_itself(back: int) -> None:
    episodes = [steps("ppphhpph", episode=number) for number in range(3)]
    assert weights(replay(back, *episodes)) == 3 * weights(replay(back, episodes[0]))
