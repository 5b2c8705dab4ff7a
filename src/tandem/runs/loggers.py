"""Where metrics go besides metrics.jsonl. A logger that fails is reported once and left out; it never stops a run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tandem.errors import ConfigError
from tandem.types import Metrics


class Logger(Protocol):
    name: str

    def log(self, learner_step: int, metrics: Metrics) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        from tensorboardX import FileWriter  # late: it brings protobuf along
        from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        self._writer, self._summary = FileWriter(str(folder), flush_secs=10), Summary

    def log(self, learner_step: int, metrics: Metrics) -> None:
        # One event for all of them: each passes a queue to another thread, and PPO with few simulations has 15 rows a second.
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_summary(self._summary(value=values), learner_step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases, `pip install tandem-rl[wandb]`."""

    name = "wandb"

    @staticmethod
    def require() -> None:
        if importlib.util.find_spec("wandb") is None:
            raise ConfigError("--wandb needs the package wandb, which is not installed: pip install 'tandem-rl[wandb]'")

    def __init__(self, project: str, folder: Path, config: dict[str, Any]) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        self._run = wandb.init(project=project, name=folder.name, dir=str(folder), config=config)

    def log(self, learner_step: int, metrics: Metrics) -> None:
        self._run.log(metrics, step=learner_step)

    def close(self) -> None:
        self._run.finish()


class Isolated:
    """All loggers of a run. One that raises an error is reported once and removed; the others continue."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._loggers: list[Logger] = []

    def add(self, logger: Logger) -> None:
        self._loggers.append(logger)

    def log(self, learner_step: int, metrics: Metrics) -> None:
        self._each(lambda logger: logger.log(learner_step, metrics))

    def close(self) -> None:
        self._each(lambda logger: logger.close())
        self._loggers = []

    def _each(self, call: Callable[[Logger], None]) -> None:
        for logger in list(self._loggers):
            try:
                call(logger)
            except Exception as problem:  # anything: a logger must not stop a run
                self._loggers.remove(logger)
                self._report(logger.name, f"{type(problem).__name__}: {problem}")
