"""`tandem actor` that never receives a new policy: it keeps acting with the first one.

python deaf_actor.py TASK ...
"""

import sys

import tyro

import tandem.programs.actor
from tandem.link.client import ActorClient
from tandem.types import PolicySnapshot


class Deaf(ActorClient):
    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        return super().newest_policy(newer_than) if newer_than < 0 else None


tandem.programs.actor.ActorClient = Deaf
tandem.programs.actor.act_here(tyro.cli(tandem.programs.actor.ActorArgs, args=sys.argv[1:]), print)
