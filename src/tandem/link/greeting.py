"""The hub's answer to an actor's greeting: welcome, or the reason why it cannot join."""

from __future__ import annotations

from typing import NamedTuple

from tandem.link.hub_config import HubContext
from tandem.link.messages import BadFrame, Hello, OtherProtocol, parse
from tandem.types import Entry, Spec, environment_id


class Objection(NamedTuple):
    """Why an actor cannot join: a code of `messages.REFUSALS`, and a text for the person at the actor."""

    code: str
    text: str


def read_hello(data: bytes) -> Hello | Objection:
    """The greeting in an actor's first frame, or what is wrong with it."""
    try:
        hello = parse(data, ("hello",))
        assert isinstance(hello, Hello)
        return hello
    except OtherProtocol as problem:
        return Objection("protocol", f"{problem}. Install the same version of Tandem on both machines.")
    except BadFrame as problem:
        return Objection("protocol", f"the first message is not a greeting: {problem}. Is this an actor of Tandem?")


def objection_to(hello: Hello, hub: HubContext, others: int, credential: str) -> Objection | None:
    """Why this actor cannot join; None if it can. `others`: actors connected already; `credential`: the name of the one it has shown."""
    name, spec = hello.name, hub.info.spec
    if environment_id(hello.task) != environment_id(hub.info.task):
        return Objection(
            "task", f"this run is of the task '{hub.info.task}', the actor '{name}' has '{hello.task}'. Start it with the same task."
        )
    difference = _difference(spec, hello)
    if difference:
        return Objection(
            "spec",
            f"the actor '{name}' has other observations, actions or rewards than this run of '{spec.task}': {difference} "
            "(here: the run, there: the actor). Use the same version and options of the task at both ends.",
        )
    if hello.run and hello.run != hub.run_id:
        return Objection(
            "run",
            f"the actor '{name}' joined run {hello.run}, this is run {hub.run_id}. Its steps stay in its spool: "
            "start a new actor for this run, or the hub of the other run.",
        )
    if others >= hub.config.max_actors:
        return Objection(
            "busy", f"{others} actors are connected, the most this hub accepts. Stop one, or start the learner with more --max-actors."
        )
    problem = hub.sources.problem(credential, (hello.source,))
    return Objection("source", f"{problem}. Start the actor with the token that it had before.") if problem else None


def _difference(mine: Spec, hello: Hello) -> str:
    """In words, empty if there is none. Scales do not count: the run has them and gives them to its actors (`settings["scales"]`).

    Shapes first: a spec of a few bytes can have more numbers than fit into memory, and the hash and the other differences look at each.
    """
    try:
        theirs = Spec.from_json(hello.spec)
        # actors hand out pictures; the run's encoder, which they get with the welcome, makes features of them
        ours, actors = mine.without_encoder(), theirs.without_encoder()
        found = "; ".join(_other_shapes(ours, actors) or ours.data_difference(actors))[:2000]
        return found or ("the same description, but another hash" if hello.spec_hash != theirs.hash else "")
    except Exception:  # it comes from outside, and there are many ways to be no spec
        return "its spec cannot be read"


def _other_shapes(mine: Spec, theirs: Spec) -> list[str]:
    differences = []
    if mine.action_dim != theirs.action_dim:
        differences.append(f"action: {mine.action_dim} numbers here, {theirs.action_dim} there")
    for name in sorted(mine.observation.keys() | theirs.observation.keys()):
        here, there = (_shape(spec.observation.get(name)) for spec in (mine, theirs))
        if here != there:
            differences.append(f"observation entry '{name}': {here} here, {there} there")
    return differences


def _shape(entry: Entry | None) -> str:
    return "none" if entry is None else f"shape {entry.shape} {entry.dtype}"
