"""The trainer's end of the link: hub and trainer meet in the run folder, and neither ever waits for the other.

journal.db       the hub alone writes it; the trainer reads accepted rows in order
policy.bin       the newest policy, exactly the bytes that actors receive
board            counters: where the trainer is, what the hub has stored
commands.jsonl   commands to the trainer, one line each; the board where the disk is full
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tandem.data.journal import Journal
from tandem.errors import StorageFull
from tandem.files import Durability, make_once, write_atomically
from tandem.link.commands import TRAINER_COMMANDS
from tandem.link.messages import BadFrame, Command, pack_policy, parse_policy
from tandem.runs.board import PHASES, Board
from tandem.runs.folder import RunFolder
from tandem.runs.lines import Tail
from tandem.types import PolicySnapshot, Spec, Transition

_LOOK_ANYWAY_S = 1.0


def open_journal(run: Path, spec: Spec, *, read_only: bool, durability: Durability = "power") -> Journal:
    """The run's journal, made by the first process that asks."""
    path = make_once(RunFolder(run).journal, lambda path: Journal.create(path, spec, kind="online").close())
    return Journal.open(path, spec, read_only=read_only, durability=durability)


class TrainerEnd:
    """Accepted steps in order, policies out, commands in. Needs no running hub."""

    def __init__(self, run: Path, spec: Spec, after_ord: int = 0) -> None:
        folder = RunFolder(run)
        self._policy_file = folder.published_policy
        self._journal = open_journal(run, spec, read_only=True)
        self._board = Board(run)
        self.ord = after_ord
        """The last row that was received."""
        self._looked_at = -1
        self._discards_seen = -1
        self._discarded: set[tuple[str, int]] = set()
        self._look_anyway_at = 0.0
        self._commands = Tail.from_end(folder.commands_file)  # commands to an earlier trainer are over
        self._asked_count = self._board["asked_count"]

    def receive(self) -> list[Transition]:
        """Accepted steps since the last call, in the order in which they were committed."""
        stored, now = self._board["hub_ord"], time.monotonic()
        # A hub that was killed after its commit may not have updated the board: look now and then all the same.
        if stored == self._looked_at and now < self._look_anyway_at:
            return []
        received = list(self._journal.read(self.ord, with_discarded=True))
        self._looked_at, self._look_anyway_at = stored, now + _LOOK_ANYWAY_S
        if received:
            self.ord = received[-1][0]
        return [transition for _, transition in received]

    def discarded(self) -> set[tuple[str, int]]:
        """Episodes that people have thrown away since the last call; the first time, all of this run's."""
        count = self._board["discards"]
        if count == self._discards_seen:
            return set()
        self._discards_seen = count
        found = self._journal.discarded() - self._discarded
        self._discarded |= found
        return found

    def publish(self, snapshot: PolicySnapshot) -> None:
        """The newest policy, for the hub to pass on: the whole file or the one before it."""
        try:
            write_atomically(self._policy_file, pack_policy(snapshot), durable=False)  # a trainer that starts again publishes anew
        except StorageFull as problem:
            raise StorageFull(f"{problem} The actors keep the policy they have.") from problem
        self._board["policy_version"] = snapshot.version  # last: the hub reads the file when this changes

    def beat(self, *, learner_step: int, phase: str, steps_before: int, updates_per_actor_step: float) -> None:
        """Say where training is; cheap enough for every turn of a loop."""
        board = self._board
        board["learner_step"] = learner_step
        board["steps_before"] = steps_before
        board.updates_per_actor_step = updates_per_actor_step
        board["phase"] = PHASES.index(phase)
        board["trainer_ord"] = self.ord
        board["trainer_heartbeat"] += 1

    def commands(self) -> list[Command]:
        """Commands since the last call; a line that is being written waits for its end."""
        found = []
        for row in self._commands.rows():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # not a command of this version
                found.append(Command.from_fields({name: row[name] for name in ("command", "to", "detail")}))
        count = self._board["asked_count"]
        if count != self._asked_count:  # of several since the last call the newest
            self._asked_count = count
            found.append(Command(TRAINER_COMMANDS[self._board["asked_command"]], "trainer", {}))
        return found

    def close(self) -> None:
        self._board.close()
        self._journal.close()


def read_policy_file(run: Path) -> tuple[PolicySnapshot, bytes] | None:
    """The published policy and the bytes to pass on; None where there is none, or a damaged one."""
    try:
        data = RunFolder(run).published_policy.read_bytes()
        return parse_policy(data), data
    except (OSError, BadFrame):
        return None
