"""`tandem actor` whose callback for new policies was lost: it acts with the first one for ever.

python deaf_actor.py TASK ...
"""

import sys

import tyro

import tandem.training.acting
from tandem.link.client import ActorClient
from tandem.types import PolicySnapshot


class Deaf(ActorClient):
    def newest_policy(self, newer_than: int = -1) -> PolicySnapshot | None:
        return super().newest_policy(newer_than) if newer_than < 0 else None


tandem.training.acting.ActorClient = Deaf
tandem.training.acting.act_here(tyro.cli(tandem.training.acting.ActorArgs, args=sys.argv[1:]), print)
