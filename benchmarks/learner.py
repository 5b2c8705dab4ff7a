"""How fast is the RLPD learner, compared with other libraries and with the machine?

    python -m benchmarks.learner [--quick] [--json]

Critic updates per second, sampling included, at the sizes of a typical robot task (30 observation numbers, 7 action numbers, batch 256,
two critics of 256 x 256 units with LayerNorm, one policy update per two critic updates), compared with

* SBX (JAX) and Stable-Baselines3 (PyTorch) with the same sizes, in `.venv-peers`, which is installed here; each with the fastest number
  of updates per call. Stable-Baselines3 has no LayerNorm and updates its policy every time;
* the roofline: the time of the matrix products alone, each by the fastest of XLA, NumPy and PyTorch, on data in the cache.

All are measured in turns in one run. A figure is the median over the turns of the ratio within a turn, because the machine's speed drifts.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from json import dumps

import jax
import numpy as np
import tyro

from benchmarks.peers import Peers
from benchmarks.report import Report
from benchmarks.roofline import Product, XlaProduct, product_with_numpy
from tandem.agents.sac import SAC, SACState
from tandem.agents.sac_config import RLPD_PUBLISHED, SACConfig
from tandem.data.mixing import Mixture
from tandem.data.replay import Replay
from tandem.types import Continuous, Entry, Spec, Transition

OBSERVATION_DIM, ACTION_DIM, BATCH_SIZE, TRANSITIONS = 30, 7, 256, 4000
LIKE_SBX = dataclasses.replace(SACConfig(), activation="relu", actor_layer_norm=False, backup_entropy=True)
"""Tandem's agent with the networks and the target of SBX, for an equal comparison."""
TARGETS = {
    "over_sbx": (">=", 1.2),
    "roofline_share": (">=", 0.7),
    "roofline_share_utd20_10critics": (">=", 0.7),
    "sampling_share": ("<=", 0.1),
}


class Learner:
    """Tandem's learner: replay, mixture and agent, as in training."""

    def __init__(self, config: SACConfig) -> None:
        self.agent = SAC(config, OBSERVATION_DIM, ACTION_DIM, None if config.backup_entropy else (0.0, 1.0))
        self.mixture = Mixture(_filled(seed=1), _filled(seed=2), BATCH_SIZE)
        self.random = np.random.default_rng(0)
        self.state: SACState = self.agent.init(0)
        self.seconds(2 * config.cta_ratio)  # compiles

    def seconds(self, updates: int) -> float:
        """Mean seconds of a critic update, over `updates` of them."""
        steps, start = max(1, updates // self.agent.config.cta_ratio), time.perf_counter()
        for _ in range(steps):
            batch = self.mixture.sample(self.random, self.agent.config.cta_ratio)
            self.state, _ = self.agent.update(self.state, batch)
        jax.block_until_ready(self.state)
        return (time.perf_counter() - start) / (steps * self.agent.config.cta_ratio)

    def sampling_seconds(self, updates: int) -> float:
        """Mean seconds of sampling the batch of one critic update."""
        steps, start = max(1, updates // self.agent.config.cta_ratio), time.perf_counter()
        for _ in range(steps):
            self.mixture.sample(self.random, self.agent.config.cta_ratio)
        return (time.perf_counter() - start) / (steps * self.agent.config.cta_ratio)


def _filled(seed: int) -> Replay:
    spec = Spec(
        "benchmark", {"state": Entry((OBSERVATION_DIM,))}, (Continuous("joints", ACTION_DIM),), control_hz=10.0, max_episode_steps=100
    )
    replay, random = Replay(spec, TRANSITIONS), np.random.default_rng(seed)
    for step in range(TRANSITIONS):
        seen, then = random.standard_normal((2, OBSERVATION_DIM), dtype=np.float32)
        action, end = random.uniform(-1, 1, ACTION_DIM).astype(np.float32), step % 50 == 49
        replay.insert(Transition({"state": seen}, action, float(end), {"state": then}, terminated=end, truncated=False))
    return replay


def products(config: SACConfig) -> Counter[Product]:
    """Every matrix product that a learner step needs, and how often."""
    b, s, a, seen = BATCH_SIZE, OBSERVATION_DIM, ACTION_DIM, OBSERVATION_DIM + ACTION_DIM
    critics, targets = config.critic_ensemble_size, config.critic_subsample_size or config.critic_ensemble_size
    count: Counter[Product] = Counter()

    def forward(inputs: int, outputs: tuple[int, ...], times: int) -> None:
        for i, o in zip((inputs, *config.hidden), (*config.hidden, sum(outputs)), strict=True):
            count["nn", b, i, o] += times

    def backward(inputs: int, outputs: tuple[int, ...], times: int, *, weights: bool, into: int) -> None:
        """Gradients of the weights, and of the last `into` inputs; those of the other inputs are not needed."""
        for i, o in zip((inputs, *config.hidden), (*config.hidden, sum(outputs)), strict=True):
            count["tn", b, i, o] += times * weights
            count["nt", b, o, into if i == inputs else i] += times * (into > 0 or i != inputs)

    policy, value = (a, a), (1,)
    forward(s, policy, config.cta_ratio)  # next actions
    forward(seen, value, config.cta_ratio * (targets + critics))
    backward(seen, value, config.cta_ratio * critics, weights=True, into=0)
    forward(s, policy, 1)
    forward(seen, value, critics)
    backward(seen, value, critics, weights=False, into=a)
    backward(s, policy, 1, weights=True, into=0)
    return +count


def main(quick: bool = False, json: bool = False) -> None:
    """Compare the learner with other libraries and with the machine.

    Args:
        quick: Few and short turns, to check that it works.
        json: One JSON object instead of a table.
    """
    turns, updates, product_time = (3, 60, 0.004) if quick else (11, 200, 0.01)
    ours, alike, many = Learner(SACConfig()), Learner(LIKE_SBX), Learner(RLPD_PUBLISHED)
    wanted, wanted_many = products(ours.agent.config), products(many.agent.config)
    distinct = sorted(wanted | wanted_many)
    xla = {product: XlaProduct(product) for product in distinct}
    sizes = {"observation_dim": OBSERVATION_DIM, "action_dim": ACTION_DIM, "batch_size": BATCH_SIZE, "hidden": SACConfig().hidden}
    peers = Peers("learner_peers.py", dumps(sizes | {"transitions": TRANSITIONS}))
    seconds: dict[str, list[float]] = {}
    calls = {name: int(peers.ask(train=name, updates=8)[1]) for name in ("sbx", "sb3")}
    for _ in range(turns):
        turn = {
            "ours": ours.seconds(updates),
            "sbx": peers.ask(train="sbx", updates=updates)[0],
            "alike": alike.seconds(updates),
            "many": many.seconds(max(20, updates // 4)),
            "sb3": peers.ask(train="sb3", updates=updates // 2)[0],
            "sampling": ours.sampling_seconds(updates),
        }
        fastest = dict(zip(distinct, peers.ask(products=distinct, seconds=product_time), strict=True))
        for product in distinct:
            fastest[product] = min(fastest[product], product_with_numpy(product, product_time), xla[product].seconds(product_time))
        turn["roofline"] = sum(fastest[product] * times for product, times in wanted.items()) / ours.agent.config.cta_ratio
        turn["roofline_many"] = sum(fastest[product] * times for product, times in wanted_many.items()) / many.agent.config.cta_ratio
        for name, value in turn.items():
            seconds.setdefault(name, []).append(value)
    peers.close()
    report = Report("learner", ("learner", "critic updates/s", "best turn", "notes"), TARGETS)
    _fill(report, seconds, calls)
    report.show(json)


def _fill(report: Report, seconds: dict[str, list[float]], calls: dict[str, int]) -> None:
    notes = {
        "ours": ("Tandem, defaults", f"{os.cpu_count()} cores, sampling included"),
        "alike": ("Tandem, networks and target of SBX", ""),
        "sbx": ("SBX", f"{calls['sbx']} updates per call"),
        "sb3": ("Stable-Baselines3", f"{calls['sb3']} updates per call, no LayerNorm, policy every time"),
        "roofline": ("matrix products alone", "fastest of XLA, NumPy, PyTorch for each"),
        "many": ("Tandem, RLPD as published", "20 updates of 10 critics, 2 of them in the target"),
        "roofline_many": ("its matrix products alone", ""),
    }
    for name, (title, note) in notes.items():
        report.row(title, f"{1 / np.median(seconds[name]):.0f}", f"{1 / min(seconds[name]):.0f}", note)

    def ratio(above: str, below: str) -> float:
        return float(np.median(np.array(seconds[above]) / np.array(seconds[below])))

    report.figures = {
        "over_sbx": ratio("sbx", "alike"),
        "over_sb3": ratio("sb3", "ours"),
        "roofline_share": ratio("roofline", "ours"),
        "roofline_share_utd20_10critics": ratio("roofline_many", "many"),
        "sampling_share": ratio("sampling", "ours"),
        "critic_updates_per_s": float(1 / np.median(seconds["ours"])),
    }
    for name, value in report.figures.items():
        report.row(name, f"{value:.3g}", "", " ".join(map(str, TARGETS.get(name, ()))))


if __name__ == "__main__":
    tyro.cli(main)
