"""What a learner cannot learn is refused when the run starts, by name, and leaves no folder behind."""

from pathlib import Path

import pytest

from tandem.errors import ConfigError
from tandem.off_policy.cloning import CloneArgs, clone_demos
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.sync import train
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs.arguments import TrainArgs
from tandem.programs.launch import train_here
from tandem.runs.display import Display
from tests.grasp_task import odd_tasks  # noqa: F401  a fixture

QUIET = Display("quiet")
LEARNERS = ("RLPD --sync", "RLPD", "PPO", "cloning")


@pytest.mark.usefixtures("odd_tasks")
@pytest.mark.parametrize(
    ("learner", "task", "says"),
    [
        # RLPD and cloning would encode it, but not of this size; PPO does not learn from pictures
        *(
            (learner, "pictured", r"the image 'wrist' has the shape \(8, 8, 3\)|entry 'wrist' of 'pictured': its role is 'image'")
            for learner in LEARNERS
        ),
    ],
)
def test_what_cannot_be_learned_is_refused_before_there_is_a_folder(learner: str, task: str, says: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # short, so that a learner that does not refuse it fails this test soon
    config = TrainConfig(task=task, max_steps=1, max_minutes=0.05, eval_period=0, final_episodes=0)
    with pytest.raises(ConfigError, match=says):
        if learner == "RLPD --sync":
            train(config, run, QUIET)
        elif learner == "RLPD":
            train_here(TrainArgs(config=config), config, run, QUIET)
        elif learner == "PPO":
            train_ppo(OnPolicyConfig(task=task, num_envs=2, max_iterations=1, final_episodes=0), run, QUIET)
        else:
            clone_demos(CloneArgs(task, (tmp_path / "none.db",)), run, QUIET)
    assert not run.exists()
