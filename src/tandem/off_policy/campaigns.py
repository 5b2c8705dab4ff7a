"""Who evaluates the policies of a run that learns from demonstrations, and when it ends: by its settings."""

from __future__ import annotations

from collections.abc import Callable

from tandem.acting.examiner import Examination, Examiner
from tandem.acting.judge import Judge
from tandem.off_policy.config import TrainConfig
from tandem.runs.campaign import Campaign, StopRules
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Spec


def campaign_for(config: TrainConfig, run: RunFolder, spec: Spec, display: Display, say: Callable[[str], None]) -> tuple[Judge, Campaign]:
    """`say` writes a line to the run's log and to the terminal."""
    judge = Judge(
        config.task,
        spec,
        config.seed,
        eval_episodes=config.eval_episodes,
        final_episodes=config.final_episodes,
        eval_stochastic=config.eval_stochastic,
        share=config.eval_share,
        say=display.say,
        progress=display.waiting,
    )
    rules = StopRules(config.max_steps, config.max_minutes, config.stop_success, config.stop_evaluations)
    return judge, Campaign(run, spec, display, rules, evaluate=judge.score, judge=judge.final, say=say)


def examiner_for(config: TrainConfig, run: RunFolder) -> Examiner:
    """Evaluates in a process of its own while the trainer learns."""
    asked = Examination(config.task, config.seed, config.eval_episodes, config.eval_stochastic, config.eval_share)
    return Examiner(asked, run.spec, run.path / "examination")
