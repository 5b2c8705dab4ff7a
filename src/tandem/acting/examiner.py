"""Evaluations in a process of their own, so that a learner goes on meanwhile.

    trainer ── policy, settings ──► python -m tandem.acting.examiner ── score ──► trainer, some steps later

The process lives for one evaluation, and what is exchanged are files in a folder of the run. It may find that the environment is taken, or
fail; neither ends the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.acting.judge import Judge
from tandem.errors import EnvironmentFailed, EnvironmentTaken
from tandem.files import write_atomically
from tandem.runs.campaign import Score
from tandem.runs.checkpoint import read_policy, write_policy
from tandem.types import PolicySnapshot, Spec

_ENDS_WITHIN_S = 5.0
"""After a terminate, before it is killed."""


@dataclass(frozen=True)
class Examination:
    """What is asked of one process; settings as in `Judge`."""

    task: str
    seed: int
    eval_episodes: int
    eval_stochastic: bool
    share: float
    trained_s: float = 0.0
    """Seconds of training since the evaluation before: those of an environment that is stepped alone are bounded by a share of it."""


class Examiner:
    """Scores one policy at a time."""

    def __init__(self, asked: Examination, spec: Spec, folder: Path) -> None:
        self._asked, self._spec, self._folder = asked, spec, folder
        self._errors, self._answer = folder / "errors.txt", folder
        self._begun = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._since = time.monotonic()

    @property
    def busy(self) -> bool:
        """From `begin` until its score was taken."""
        return self._process is not None

    def begin(self, snapshot: PolicySnapshot) -> None:
        """Start to evaluate it."""
        assert not self.busy
        self._begun += 1
        name = f"{os.getpid()}_{self._begun}"  # one that a trainer before us began may still be at work
        policy, self._answer = self._folder / f"{name}.safetensors", self._folder / f"{name}.json"
        self._folder.mkdir(exist_ok=True)
        write_policy(policy, snapshot, self._spec)
        asked = dataclasses.replace(self._asked, trained_s=time.monotonic() - self._since)
        command = [sys.executable, "-m", "tandem.acting.examiner", str(policy), json.dumps(dataclasses.asdict(asked))]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True)

    def take(self) -> Score | None:
        """The score, once it is there; None before. An environment that is taken, or fails, is an error."""
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process, self._since = self._process.returncode, None, time.monotonic()
        try:
            found: dict[str, Any] = json.loads(self._answer.read_bytes())
        except (OSError, ValueError):
            last = self._errors.read_text(errors="replace").strip().splitlines()[-1:] if self._errors.exists() else []
            raise EnvironmentFailed(
                f"the evaluation of '{self._asked.task}' in a process of its own ended with code {code} and without a score: "
                f"{''.join(last) or 'it said nothing'} (all that it said: {self._errors})"
            ) from None
        if "taken" in found:
            raise EnvironmentTaken(found["taken"])
        return Score(**found)

    def close(self) -> None:
        """Nobody waits for the score any more."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._folder, ignore_errors=True)


def examine(policy: Path, asked: Examination) -> None:
    """Evaluate the policy of this file, leave its score next to it, and remove it."""
    snapshot, spec = read_policy(policy)
    policy.unlink()
    judge = Judge(
        asked.task,
        spec,
        asked.seed,
        eval_episodes=asked.eval_episodes,
        final_episodes=0,
        eval_stochastic=asked.eval_stochastic,
        share=asked.share,
        trained_s=asked.trained_s,
    )
    try:
        answer = dataclasses.asdict(judge.score(snapshot))
    except EnvironmentTaken as taken:
        answer = {"taken": str(taken)}
    write_atomically(policy.with_suffix(".json"), json.dumps(answer).encode())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        examine(Path(sys.argv[1]), Examination(**json.loads(sys.argv[2])))
