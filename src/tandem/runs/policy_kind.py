"""Which kind of policy a file or a frame holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

import numpy as np

from tandem.types import PolicyKind


def policy_kind(said: str | None, parameters: Mapping[str, np.ndarray]) -> PolicyKind:
    """The kind that a file or a frame says; an older one says none."""
    if said is None:
        return kind_of_old_policy(parameters)
    if said not in get_args(PolicyKind):
        raise ValueError(f"a policy of the kind '{said}'; this version knows {', '.join(get_args(PolicyKind))}")
    return cast("PolicyKind", said)


def kind_of_old_policy(parameters: Mapping[str, np.ndarray]) -> PolicyKind:
    """The kind of a policy that was written before files said it: the only place that tells it by the names of the parameters."""
    if "rnn_type" in parameters:
        return "recurrent_gaussian"
    return "gaussian" if "normaliser/mean" in parameters else "tanh_gaussian"
