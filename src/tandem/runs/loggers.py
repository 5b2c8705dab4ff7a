"""Where metrics go besides metrics.jsonl. A logger that fails is reported once and left out; it never stops a run."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tandem.errors import ConfigError
from tandem.types import Metrics

_FLUSH_S = 10.0
_MAX_WAITING = 1000
"""Rows that wait for a slow disk."""


class Logger(Protocol):
    name: str

    def log(self, learner_step: int, metrics: Metrics) -> None: ...

    def show(self, learner_step: int, pictures: Mapping[str, np.ndarray]) -> None:
        """What cameras saw, (height, width, channels) uint8 each by its name."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """A thread of its own writes the file: its checksums are slow, and the disk may be. A failure is raised by the next call."""

    name = "tensorboard"

    def __init__(self, folder: Path) -> None:
        from tensorboardX.proto import event_pb2, summary_pb2  # late: protobuf
        from tensorboardX.record_writer import RecordWriter

        described: tuple[Any, Any] = (event_pb2, summary_pb2)  # generated at import: no checker knows what is in them
        self._event, self._summary = described[0].Event, described[1].Summary
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"  # by which TensorBoard finds it
        self._file = RecordWriter(str(folder / name))
        self._file.write(self._event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        self._rows: queue.Queue[Any] = queue.Queue(_MAX_WAITING)
        self._problem: Exception | None = None
        self._thread = threading.Thread(target=self._write_all, name="tensorboard", daemon=True)
        self._thread.start()

    def log(self, learner_step: int, metrics: Metrics) -> None:
        self._put(learner_step, [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()])

    def show(self, learner_step: int, pictures: Mapping[str, np.ndarray]) -> None:
        from tensorboardX.summary import image  # late: only runs with cameras need it

        self._put(learner_step, [image(f"cameras/{name}", shown, dataformats="HWC").value[0] for name, shown in pictures.items()])

    def _put(self, learner_step: int, values: list[Any]) -> None:
        if self._problem is not None:
            raise self._problem
        self._rows.put_nowait(self._event(wall_time=time.time(), step=learner_step, summary=self._summary(value=values)))

    def close(self) -> None:
        self._rows.put(None, timeout=_FLUSH_S)
        self._thread.join(_FLUSH_S)
        if self._problem is not None:
            raise self._problem

    def _write_all(self) -> None:
        flush_at = 0.0  # the first row at once
        try:
            while True:
                try:
                    event = self._rows.get(timeout=_FLUSH_S)
                except queue.Empty:
                    self._file.flush()
                    continue
                if event is None:
                    self._file.close()
                    return
                self._file.write(event.SerializeToString())
                if time.monotonic() >= flush_at:
                    self._file.flush()
                    flush_at = time.monotonic() + _FLUSH_S
        except Exception as problem:  # whatever it is, for the thread that logs
            self._problem = problem
            with contextlib.suppress(OSError):
                self._file.close()


class WandB:
    """Weights & Biases, `pip install tandem-rl[wandb]`."""

    name = "wandb"

    @staticmethod
    def require() -> None:
        if importlib.util.find_spec("wandb") is None:
            raise ConfigError("--wandb needs the package wandb, which is not installed: pip install 'tandem-rl[wandb]'")

    def __init__(self, project: str, folder: Path, config: dict[str, Any]) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        self._run, self._image = wandb.init(project=project, name=folder.name, dir=str(folder), config=config), wandb.Image
        # a row may be of a policy some steps ago, whose evaluation took that long, and W&B drops rows whose step goes back
        self._run.define_metric("learner_step")
        self._run.define_metric("*", step_metric="learner_step")

    def log(self, learner_step: int, metrics: Metrics) -> None:
        self._run.log({**metrics, "learner_step": learner_step})

    def show(self, learner_step: int, pictures: Mapping[str, np.ndarray]) -> None:
        images = {f"cameras/{name}": self._image(picture) for name, picture in pictures.items()}
        self._run.log({**images, "learner_step": learner_step})

    def close(self) -> None:
        self._run.finish()


class Isolated:
    """All loggers of a run. One that raises an error is reported once and removed; the others continue."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._loggers: list[Logger] = []

    def add(self, logger: Logger) -> None:
        self._loggers.append(logger)

    def start(self, name: str, make: Callable[[], Logger]) -> None:
        """Add one that may fail already when it is made."""
        try:
            self._loggers.append(make())
        except Exception as problem:
            self._report(name, f"{type(problem).__name__}: {problem}")

    def log(self, learner_step: int, metrics: Metrics) -> None:
        self._each(lambda logger: logger.log(learner_step, metrics))

    def show(self, learner_step: int, pictures: Mapping[str, np.ndarray]) -> None:
        self._each(lambda logger: logger.show(learner_step, pictures))

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
