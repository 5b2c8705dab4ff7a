"""`tandem access RUN`: credentials for robots and people, so that the run's own token need not be given away."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tandem.errors import ConfigError, StorageFull
from tandem.link.access import TOKEN_NAME, AccessFile
from tandem.link.roles import Role
from tandem.programs.terminal import say
from tandem.runs.folder import RunFolder


def access(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    do: Annotated[Literal["list", "add", "revoke"], tyro.conf.Positional, tyro.conf.arg(metavar="list|add|revoke")] = "list",
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = None,
    role: Role | None = None,
    hours: float | None = None,
    out: Path | None = None,
) -> None:
    """Make, list and revoke credentials: who may send steps, see, steer, or end a run.

    A hub that runs takes a change within a second. The roles are: actor (a robot's computer: sends its own steps), viewer (sees
    everything, may STOP a robot), operator (takes over, labels, discards, pauses, lets a robot move again), admin (also ends the run).
    The file RUN/token is the admin's.

    Args:
        run: A run folder.
        do: What to do.
        name: Whose credential: a robot, a person. `token` is the one of the file RUN/token; revoked, it gets a new content.
        role: For `add`: actor, viewer, operator or admin.
        hours: For `add`: it ends after so many hours. Default: when it is revoked.
        out: For `add`: write the token to this new file, readable by you alone, and do not print it.
    """
    folder = RunFolder.open(run)
    if do == "list":
        _list(folder)
        return
    if not name:
        raise ConfigError(f"`tandem access RUN {do} NAME`: the name is missing")
    if do == "add":
        if role is None:
            raise ConfigError(f"`tandem access RUN add {name} --role ROLE`: the role is missing: actor, viewer, operator or admin")
        _add(folder, name, role, hours, out)
    else:
        AccessFile(folder).revoke(name)
        say(f"'{name}' opens nothing any more" + (f"; {folder.token_file} has a new token" if name == TOKEN_NAME else ""))


def _add(folder: RunFolder, name: str, role: Role, hours: float | None, out: Path | None) -> None:
    if out is not None and out.exists():
        raise ConfigError(f"--out {out} exists; a token is never written over another file")
    token = AccessFile(folder).add(name, role, hours)
    if out is not None:
        try:
            with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token + "\n")
        except OSError as problem:
            AccessFile(folder).revoke(name)
            raise StorageFull(f"cannot write {out}: {problem.strerror}; no credential was made") from None
        say(f"the token of '{name}' ({role}) is in {out}")
    else:
        say(f"the token of '{name}' ({role}), which is printed only now:\n{token}")
    say(_use(folder, role, token if out is None else "TOKEN", out))


def _use(folder: RunFolder, role: Role, token: str, out: Path | None) -> str:
    hub = folder.hub() or {"address": "HOST:PORT", "tls": False}
    if role == "actor":
        address = f"{'wss://' if hub['tls'] else ''}{hub['address']}"
        return f"its actor joins with: tandem actor {folder.info.task} --learner {address} --token-file {out or 'FILE'}"
    return f"page: {'https' if hub['tls'] else 'http'}://{hub['address']}/?token={token}"


def _list(folder: RunFolder) -> None:
    say(f"{'name':24} {'role':10} until")
    say(f"{TOKEN_NAME:24} {'admin':10} it is revoked (the file {folder.token_file})")
    for credential in AccessFile(folder).list():
        ends = credential.expires_at
        over = ends is not None and ends <= time.time()
        until = "it is revoked" if ends is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(ends)) + (" (over)" if over else "")
        say(f"{credential.name:24} {credential.role:10} {until}")
