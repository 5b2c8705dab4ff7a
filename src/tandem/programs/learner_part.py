"""`tandem learner-part`: a process that computes a part of each update of a learner that leads (`agents/together.py`)."""

from __future__ import annotations

import os
from typing import Annotated

import tyro

from tandem.errors import ConfigError
from tandem.programs.terminal import say


def learner_part(address: Annotated[str, tyro.conf.Positional], number: int = 1, of: int = 2) -> None:
    """Compute a part of each update of a learner, on this machine's devices, until it ends.

    Args:
        address: HOST:PORT of the learner's --learners-address, as this machine reaches it.
        number: Which process this is: 1 to --of minus 1; the learner is 0.
        of: Processes in all, as in the learner's --learners.
    """
    import jax

    from tandem.agents.together import join, take_part

    if number < 1:
        raise ConfigError(f"--number {number}: the learner itself is number 0; the others have the numbers 1 to {of - 1}")
    say(f"process {number} of {of}: waiting for the learner at {address}")
    join(address, number, of)
    try:
        take_part(say)
    except jax.errors.JaxRuntimeError as problem:
        say(f"the learner is gone ({str(problem).splitlines()[0]}). Start this again, then it goes on from its newest checkpoint.")
        os._exit(1)  # JAX would wait for it before this process may end
