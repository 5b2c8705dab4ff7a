"""Updates on one device and on all of them, in a process whose devices are forced: prints how far the results are apart, as JSON.

python -m tests.agents.sharded_process [PROCESSES NUMBER PORT [lead]]     lead: number 0 leads, and the others know nothing by themselves
"""

import json
import sys

import jax
import numpy as np

from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_start import agent_for
from tandem.agents.sharded_sac import ShardedSAC, on_devices
from tandem.agents.together import join, leading, take_part
from tandem.envs.reach import SPEC
from tests.agents.sac_samples import AGENT, CONFIG, batch_of

ROWS, STEPS = 16, 3


def trained(agent: SAC, state: SACState, first: int, steps: int) -> SACState:
    for number in range(first, first + steps):
        state, _ = agent.update(state, batch_of(agent, ROWS, seed=number))
    return state


def difference(one: SAC, a: SACState, other: SAC, b: SACState) -> float:
    """The largest, relative to the size of each array."""
    arrays, others = one.arrays(a), other.arrays(b)
    assert set(arrays) == set(others)
    return max(float(np.abs(arrays[name] - others[name]).max() / (np.abs(arrays[name]).max() + 1e-8)) for name in arrays if name != "key")


def lead() -> None:
    alone = agent_for(CONFIG, SPEC)
    many = leading(alone, SPEC, ROWS)
    first, second = many.init(0), alone.init(0)
    first, second = trained(many, first, 0, STEPS), trained(alone, second, 0, STEPS)
    kept, kept_alone = many.copy(first), alone.copy(second)
    first, second = trained(many, first, STEPS, 2), trained(alone, second, STEPS, 2)
    far = difference(many, first, alone, second)
    # a step back: the others are told the state that they do not have
    again, again_alone = trained(many, kept, 9, 1), trained(alone, kept_alone, 9, 1)
    last = jax.tree.map(lambda a: a[0], batch_of(alone, ROWS))
    values, same = many.values(again, last), alone.values(again_alone, last)
    found = {
        "devices": len(jax.devices()),
        "difference": far,
        "difference_after_step_back": difference(many, again, alone, again_alone),
        "moved": difference(many, first, alone, alone.init(0)),
        "values_difference": max(abs(float(values[name]) - float(same[name])) for name in values),
    }
    many.end()
    print(json.dumps(found), flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        processes, number, port = map(int, sys.argv[1:4])
        join(f"127.0.0.1:{port}", number, processes)
    if sys.argv[4:] == ["lead"]:
        lead() if jax.process_index() == 0 else take_part(lambda line: print(line, flush=True))
        return
    many = on_devices(AGENT, ROWS, jax.devices())
    assert isinstance(many, ShardedSAC)
    placed = many.spread(batch_of(AGENT, ROWS), axis=1).rewards
    together, alone = trained(many, many.init(0), 0, STEPS), trained(AGENT, AGENT.init(0), 0, STEPS)
    far = difference(many, together, AGENT, alone)
    same_key = bool(np.array_equal(many.arrays(together)["key"], AGENT.arrays(alone)["key"]))
    # a checkpoint of many devices goes on with one, and one of one device with many
    saved = many.arrays(together)
    fewer = trained(AGENT, AGENT.from_arrays(AGENT.init(1), saved), STEPS, 1)
    more = trained(many, many.from_arrays(many.init(1), saved), STEPS, 1)
    values, same = (
        agent.values(state, jax.tree.map(lambda a: a[0], batch_of(AGENT, ROWS))) for agent, state in ((many, more), (AGENT, fewer))
    )
    found = {
        "devices": len(placed.sharding.device_set),
        "rows_each": placed.addressable_shards[0].data.shape[1],
        "difference": far,
        "resumed_difference": difference(AGENT, fewer, many, more),
        "values_difference": max(abs(float(values[name]) - float(same[name])) for name in values),
        "moved": difference(many, together, AGENT, AGENT.init(0)),
        "same_key": same_key,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
