"""Recipes: short differences from the defaults, each with its reason.

`tandem train TASK` takes the recipe named after the task. For any other task it is `fitted` with demonstrations, `fitted_pixels` where the
environment has cameras, and `default` without demonstrations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tandem.agents.sac_config import RLPD_PUBLISHED, SACConfig
from tandem.errors import ConfigError
from tandem.learnable import sees
from tandem.off_policy.config import TrainConfig
from tandem.runs.folder import Kind, RunFolder
from tandem.types import Spec


def default() -> TrainConfig:
    """hil-serl's settings."""
    return TrainConfig()


def rlpd() -> TrainConfig:
    """RLPD as published for D4RL's locomotion: 20 critic updates for every actor step, 10 critics of which 2 are drawn.

    Locomotion has a reward at every step. For sparse rewards (AntMaze, Adroit) RLPD itself sets `backup_entropy` to False, so that Q is
    the chance of success and not mostly entropy: add `--no-backup-entropy`.
    """
    return TrainConfig(agent=RLPD_PUBLISHED, training_starts=5000, random_steps=5000, steps_per_update=1)


def reach() -> TrainConfig:
    """Learns in seconds: small networks with a large learning rate, many positions of the ball, a low discount that favours haste."""
    agent = SACConfig(hidden=(64, 64), learning_rate=1e-3, discount=0.9)
    return TrainConfig(agent=agent, num_envs=8, updates_per_actor_step=0.125, eval_period=200, max_steps=4000, stop_success=0.95)


def fitted() -> TrainConfig:
    """For any task with demonstrations: what depends on the task follows from them (docs/gear_learning.md shows what each part is worth).

    The policy starts as a clone. The critics catch up before it is moved, and their targets are at least what really followed. Discount
    and n-step sums fit the length of the demonstrations; where that is long, the policy decides every few steps (`off_policy/horizon.py`).
    Demonstrations are imitated as long as the policy fails. The minimum over five critics keeps it from following over-estimates, which two
    critics with little data do. Its moving average is judged without noise, so once it is skilled half of its episodes are acted so too.
    Eight simulations are cheap data; small networks with a large learning rate and fast targets learn the same in fewer minutes.
    Where a person corrects, the actor also imitates the correction (docs/person-in-the-loop.md).
    Discrete parts of an action have five grasp critics for the same reason. Choices that are worth as much as each other to the size of a
    penalty are drawn: a hand that hovers over a gear, because closing looks as good as waiting, closes.
    """
    agent = SACConfig(
        hidden=(128, 128),
        learning_rate=1e-3,
        soft_target_update_rate=0.01,
        discount="auto",
        n_step="auto",
        return_bound="all",
        critic_ensemble_size=5,
        demo_imitation=1.0,
        imitation=3.0,
        imitation_steps=20_000,
        actor_average=0.004,
        grasp_ensemble_size=5,
        grasp_temperature=SACConfig.grasp_penalty,
    )
    return TrainConfig(
        agent=agent,
        decision_steps="auto",
        num_envs=8,
        updates_per_actor_step=0.125,
        clone_steps=600,
        critic_steps=500,
        deterministic_share=0.5,
    )


def for_one_robot(config: TrainConfig) -> TrainConfig:
    """The same for a robot that is there once: its steps are dear, so more is learned from each (22 learner steps a second at 10 Hz).

    A learner that waits for its robot has time for networks of hil-serl's size, and for twice as many critic updates. With so few episodes
    it takes long until 90 % of them succeed, so those without noise begin at 60 %. What the last two are worth is not measured apart.
    """
    agent = dataclasses.replace(config.agent, hidden=SACConfig.hidden, cta_ratio=4)
    return dataclasses.replace(config, agent=agent, num_envs=1, updates_per_actor_step=2.2, deterministic_from=0.6)


def by_eye(config: TrainConfig) -> TrainConfig:
    """The same from cameras: hil-serl's two critics of 256 units and one-step targets, without bounds, clone or imitation.

    From pictures the critics can tell demonstrations from the robot's own steps by how they look. Bounds then hold up the values of
    demonstrations alone, those of its own steps stay at 0, and there is nothing to climb: on one seed 0 % after 5,900 learner steps with
    all of `fitted`, 0 % after 4,000 without imitation, and 80 % of the training episodes after 3,750 so (docs/pixels.md).

    How many learner steps it takes hardly depends on how many steps were acted meanwhile. Those are drawn and encoded, which takes longer
    than to learn from them; so there are two of them for a learner step and not eight.
    """
    plain = SACConfig()
    agent = dataclasses.replace(
        config.agent,
        hidden=plain.hidden,
        critic_ensemble_size=plain.critic_ensemble_size,
        n_step=plain.n_step,
        return_bound=plain.return_bound,
        demo_imitation=plain.demo_imitation,
    )
    return dataclasses.replace(config, agent=agent, clone_steps=0, critic_steps=0, updates_per_actor_step=0.5)


def losable(config: TrainConfig) -> TrainConfig:
    """The same for tasks that are long until most episodes succeed, and whose episodes may be lost for good: a gear that was dropped.

    As long as demonstrations are imitated the noise is small in their states, and held at its target over the whole batch it rises in the
    robot's own: so its target is for these. And what followed once is luck where it might have been lost: with that as a bound on all
    targets critics do not see the risk, a few steps of summed rewards before it. So the bounds go as the policy succeeds (docs/hybrid.md).
    """
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, entropy_of="own", return_bound="while-failing"))


def fitted_pixels() -> TrainConfig:
    """`fitted` for cameras."""
    return by_eye(fitted())


def gear_assembly() -> TrainConfig:
    """`fitted`. Training stops when two evaluations of 100 episodes in a row fail at most once."""
    return dataclasses.replace(
        fitted(),
        eval_period=500,
        eval_episodes=100,
        stop_success=0.99,
        max_minutes=9,
        max_steps=40_000,
        checkpoint_period=2000,
    )


def gear_assembly_fine() -> TrainConfig:
    """`fitted`, which decides every few control steps here. Episodes are long, so evaluations have fewer and come more rarely."""
    return dataclasses.replace(
        fitted(),
        eval_period=2000,
        eval_episodes=50,
        stop_success=0.98,
        max_minutes=19,
        max_steps=60_000,
        checkpoint_period=4000,
    )


def gear_pick_fine() -> TrainConfig:
    """`losable`, on the longest task: an evaluation of a policy that fails takes a minute and more."""
    return dataclasses.replace(losable(gear_assembly_fine()), eval_period=4000, max_minutes=39, max_steps=120_000)


def gear_assembly_pixels() -> TrainConfig:
    """The same by eye. It takes longer before it succeeds at all."""
    return dataclasses.replace(by_eye(gear_assembly()), eval_period=1000, eval_episodes=50, stop_success=0.97, max_minutes=15)


def gear_assembly_pixels_moved() -> TrainConfig:
    """For eyes that meet other cameras, light and colours in every episode: critics that see the state instead.

    From such pictures critics cannot learn in the same time: 0 % of the training episodes after 6,900 learner steps by `by_eye`, on one
    seed, and 100 % of an evaluation after 3,000 so. Only a simulation can change cameras, and it knows the state.
    """
    config = gear_assembly()
    agent = dataclasses.replace(config.agent, critic_sees="state")
    return dataclasses.replace(config, agent=agent, eval_period=1000, eval_episodes=50, stop_success=0.97, max_minutes=30)


def gear_pick() -> TrainConfig:
    """`losable`, and with care. Training stops when two evaluations of 100 episodes in a row fail at most twice.

    Where a demonstration of 110 steps is worth 0.2 at its start, ten steps of care cost 14 % of what is to come: more than to lose one
    episode in ten. With 0.5 it is 6 %. Exploration loses what the policy alone would not, so episodes without it begin at 60 %.
    """
    config = losable(fitted())
    return dataclasses.replace(
        config,
        agent=dataclasses.replace(config.agent, value_at_start=0.5),
        deterministic_from=0.6,
        eval_period=2000,  # an evaluation takes as long as 500 learner steps
        eval_episodes=100,
        stop_success=0.98,
        max_minutes=19,
        max_steps=60_000,
        checkpoint_period=4000,
    )


def gear_pick_pixels() -> TrainConfig:
    """`losable` by eye, with critics that see the state: so the bounds and the clone that the job needs do no harm (`by_eye`)."""
    config = gear_pick()
    agent = dataclasses.replace(config.agent, critic_sees="state", state_loss=1.0)
    return dataclasses.replace(config, agent=agent, eval_period=2000, eval_episodes=50, max_minutes=55)


RECIPES: dict[str, Callable[[], TrainConfig]] = {
    "default": default,
    "fitted": fitted,
    "fitted_pixels": fitted_pixels,
    "rlpd": rlpd,
    "reach": reach,
    "gear_assembly": gear_assembly,
    "gear_assembly_fine": gear_assembly_fine,
    "gear_pick_assembly_fine": gear_pick_fine,
    "gear_assembly_pixels": gear_assembly_pixels,
    "gear_assembly_pixels_moved": gear_assembly_pixels_moved,
    **{f"{task}{mode}": gear_pick for task in ("gear_pick_assembly", "gear_lift") for mode in ("", "_delta", "_threeway")},
    **{f"gear_pick_assembly_pixels{mode}": gear_pick_pixels for mode in ("", "_threeway")},
}

FOR_ANY_TASK = ("fitted", "fitted_pixels")
"""What a task without a recipe of its own gets with demonstrations: without cameras, and with."""


def starting_config(
    task: str | None,
    recipe: str | None = None,
    resume: Path | None = None,
    *,
    with_demos: bool = False,
    one_robot: bool = False,
    cameras: bool = False,
) -> TrainConfig:
    """The configuration that typed settings change: of the run to resume, of the named recipe, or of the recipe for the task.

    `one_robot`: the task is not a simulation that can be started many times, so the recipes for any task are those for a robot.
    `cameras`: the critics learn from pictures.
    """
    if resume is not None:
        if recipe is not None:
            raise ConfigError(f"--resume {resume} and --recipe {recipe} both say which settings to start from; give one of the two")
        return config_of(RunFolder.open(resume))
    chosen = recipe or (task if task in RECIPES else FOR_ANY_TASK[cameras] if with_demos else "default")
    if chosen not in RECIPES:
        raise ConfigError(f"no recipe '{chosen}'; there are {', '.join(RECIPES)}")
    return for_one_robot(RECIPES[chosen]()) if chosen in FOR_ANY_TASK and one_robot else RECIPES[chosen]()


def chosen_for(spec: Spec, config: TrainConfig, for_cameras: TrainConfig | None, say: Callable[[str], None]) -> TrainConfig:
    """`for_cameras`, with the task and the demonstrations of `config`, where the environment has cameras at which the critics look.

    Whether it has is known once it is open, long after the command line was read. None: nothing depends on it.
    """
    if for_cameras is None or not sees(spec) or config.agent.critics_know_more:
        return config
    chosen = dataclasses.replace(for_cameras, task=config.task, demos=config.demos)
    if chosen != config:
        say(f"recipe fitted_pixels, since '{spec.task}' has cameras; --recipe names another (docs/pixels.md)")
    return chosen


def config_of(run: RunFolder, kind: Kind = "rlpd") -> TrainConfig:
    """The configuration a run of this kind was started with."""
    saved = run.settings_of(kind)
    unknown = set(saved) - {field.name for field in dataclasses.fields(TrainConfig)}
    if unknown:
        raise ConfigError(f"run {run.path} was configured by another version of Tandem: unknown settings {', '.join(sorted(unknown))}")
    with run.using_settings():
        return config_from(saved)


def config_from(saved: Mapping[str, Any]) -> TrainConfig:
    """The configuration that `runs.folder.plain` wrote."""
    agent: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in saved["agent"].items()}
    return TrainConfig(**{**saved, "agent": SACConfig(**agent), "demos": tuple(Path(demo) for demo in saved["demos"])})
