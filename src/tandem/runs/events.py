"""The kinds of events in `events.jsonl`, each with what it says. An event is something that happened once; what is measured again and
again is a metric.

Every event has `time` (seconds since 1970) and `kind`; those of the trainer also `wall_s` (seconds of training).
"""

from __future__ import annotations

EVENTS = {
    "started": "A new run. Where and with what: seed, host, cores, version, transitions of the demonstrations.",
    "resumed": "A run was continued from a checkpoint; `exact` if also the simulations were. With the configuration it goes on with.",
    "checkpoint_damaged": "A checkpoint could not be used, or checked; what was wrong with it, and where the run went on instead.",
    "published": "A policy was published for the actors: version, hash, learner step.",
    "discarded": "A person threw episodes away after something was learned from them.",
    "rolled_back": "The learner went back to its last good state: a metric was not finite, or a Q value impossible.",
    "dropped_updates": "PPO left out updates whose gradients were not finite.",
    "warned": "The doctor inside the trainer found something wrong with the metrics.",
    "command": "The trainer carried out a person's command.",
    "broken": "A simulation or an update was not finite, and the run ended; see `broken/`.",
    "logger_failed": "A logger beside metrics.jsonl raised an error and is left out from there on.",
    "stopped": "The run ended: why, and where the clocks stood.",
    "launched": "The supervisor began to start the parts of the run, for the first time or to go on with it.",
    "restarted": "A part was started again that a signal, a full disk or the loss of its node in a cluster had ended.",
    "part_failed": "A part ended with an error or by itself, and the run with it: part, how, and the error if it left one.",
    "stalled": "A step or a reset of an environment took very long: which, and how many seconds.",
    "asked": "A robot asked a person for help: which actor, the episode, its step, and why.",
    "ask_ended": "What became of it: somebody took over (`answered`), told it to go on (`dismissed`), or nobody (`unanswered`, `over`).",
    "actor_joined": "The hub accepted an actor, for the first time or `again`.",
    "actor_left": "The connection to an actor ended.",
    "refused": "The hub refused an actor: code and reason.",
    "foreign_steps": "An actor sent steps under a source of another credential; they were refused, and it was disconnected.",
    "bad_frame": "An actor sent something that is not a message of the protocol; it was disconnected.",
    "slowed": "An actor sends more than one actor may; the hub reads it more slowly.",
    "storage_trouble": "The hub cannot write to its disk; actors keep what is not acknowledged.",
    "storage_well_again": "There is room on the hub's disk again, and everything is stored.",
}
FREQUENT = ("published",)
"""Kinds that come with every publication: a list of what happened leaves them out."""
