"""Tandem: teach robots contact-rich skills from a few demonstrations, a person's corrections and reinforcement learning.

    tandem.make(task)                   one environment of a task, with Gymnasium's reset and step
    tandem.record(task, operator, ...)  demonstrations by a script of yours, or by the task's own; gives the file
    tandem.train(task, ...)             learn a task with RLPD in this process; gives the run folder and the success rate
    tandem.load_policy(path).act(obs)   act with a learned policy (NumPy only)
    tandem.read_demos(path)             the steps of a file of demonstrations or of a journal
    tandem.Journal                      the file itself: read it while a run writes it
    tandem.register_task(name, ...)     a task of your own by name, as those that come with Tandem

Each name is imported when it is first used: `import tandem` imports neither JAX nor MuJoCo. The folder examples/ has a script for each.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.data.demos import read_demos as read_demos
    from tandem.data.journal import Journal as Journal
    from tandem.envs.registry import make as make
    from tandem.envs.registry import register_task as register_task
    from tandem.programs.library import Policy as Policy
    from tandem.programs.library import TrainingResult as TrainingResult
    from tandem.programs.library import load_policy as load_policy
    from tandem.programs.library import record as record
    from tandem.programs.library import train as train

# What NumPy multiplies here is small, beside a learner that uses every core: its threads would wait for each other and for the learner's.
# With cameras that took a sixth of an actor's time. It counts where NumPy is imported after Tandem; who sets the variable knows better.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
__all__ = ["Journal", "Policy", "TrainingResult", "__version__", "load_policy", "make", "read_demos", "record", "register_task", "train"]

_PLACES = {
    "Journal": "tandem.data.journal",
    "Policy": "tandem.programs.library",
    "TrainingResult": "tandem.programs.library",
    "load_policy": "tandem.programs.library",
    "make": "tandem.envs.registry",
    "read_demos": "tandem.data.demos",
    "record": "tandem.programs.library",
    "register_task": "tandem.envs.registry",
    "train": "tandem.programs.library",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'tandem' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
