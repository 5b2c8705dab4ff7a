"""How fast is PPO, compared with other libraries and with the machine?

    python -m benchmarks.ppo_speed [--quick] [--json]

* `learning_over_rsl_rl`: time of an iteration of 4096 environments x 24 steps, with 48 observation and 12 action numbers, networks of
  128 x 128 x 128 and rsl_rl's defaults (5 epochs, 4 mini-batches); Tandem's time over rsl_rl's. On both sides the environment takes no
  time: it returns arrays that were drawn in advance. All the rest counts: actions, storage, advantages, updates, Tandem's log.
* `roofline_share`: time of the matrix products of that iteration alone, over Tandem's time.
* `fps_over_sb3`: steps per second on HalfCheetah-v4, learning included; 64 environments, the preset `gym_mujoco` (2048 samples, 10 epochs,
  mini-batches of 64), over Stable-Baselines3 with the same samples, updates and networks and its fastest number of environments,
  processes and threads.
* `iteration_over_floor`: time of an iteration of 1024 x 24 on HalfCheetah-v4 with the preset `rsl_rl`, over the lower bound: the same
  physics replayed by `mujoco.batch` alone, plus the matrix products alone.

The other libraries are rsl_rl 5.5.1 and Stable-Baselines3 2.9.2 on PyTorch 2.13.0, in `.venv-peers`, which is installed here. All are
measured in turns in one run. A figure is the median over the turns of the ratio within a turn, because the machine's speed drifts.

Other load on the machine makes the figures invalid, and unevenly: PyTorch's threads, which spin while they wait, lose several times what
Tandem's do. `impossible_turns` counts the turns in which something was faster than its own lower bound, and `load` is the number of
processes that wanted a core at the start; both must be almost zero.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco.batch
import numpy as np
import tyro

from benchmarks.peers import Peers
from benchmarks.report import Report, machine_gflops
from benchmarks.roofline import Product, XlaProduct, product_with_numpy
from tandem.agents.packing import CHUNK
from tandem.envs.batch import BatchEnv
from tandem.envs.locomotion import Locomotion
from tandem.envs.task_env import RolloutEnv
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.presets import PRESETS
from tandem.on_policy.run import OnPolicyRun
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.loggers import TensorBoard
from tandem.types import Continuous, Entry, Observation, Spec

TARGETS = {
    "learning_over_rsl_rl": ("<=", 0.6),
    "roofline_share": (">=", 0.65),
    "fps_over_sb3": (">=", 10.0),
    "iteration_over_floor": ("<=", 1.4),
    "impossible_turns": ("<=", 0),
    "load": ("<=", 0.5),
}
SEEN, DONE, HIDDEN = 48, 12, (128, 128, 128)
CHEETAH = "HalfCheetah-v4"


class Still:
    """An environment that takes no time: it returns arrays that were drawn in advance. One step in a thousand is a time-out."""

    saves, symmetry = False, None

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self._turn = num_envs, 0
        self.metadata: dict[str, Any] = {}
        self.task_spec = Spec("still", {"state": Entry((SEEN,))}, (Continuous("joints", DONE),), control_hz=50.0, max_episode_steps=1000)
        random = np.random.default_rng(0)
        self._states = [{"state": random.standard_normal((num_envs, SEEN), dtype=np.float32)} for _ in range(8)]
        self._rewards = [random.standard_normal(num_envs) for _ in range(8)]
        self._ends = [random.uniform(size=num_envs) < 0.001 for _ in range(8)]
        self._never = np.zeros(num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Observation, dict[str, Any]]:
        return self._states[0], {}

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        last, self._turn = self._turn, (self._turn + 1) % 8
        info = {"success": self._never, "final_obs": self._states[last]}
        return self._states[self._turn], self._rewards[self._turn], self._never, self._ends[self._turn], info

    def figures(self) -> dict[str, float]:
        return {}

    def halt(self, reason: str) -> None:
        pass

    def set_elapsed(self, steps: np.ndarray) -> None:
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        raise NotImplementedError

    def restore(self, state: dict[str, Any]) -> Observation:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Recorded(BatchEnv):
    """Records the actions, so that the physics alone can be replayed."""

    def __init__(self, num_envs: int) -> None:
        task = Locomotion(CHEETAH)
        super().__init__(task, num_envs)
        self.given: list[np.ndarray] = []
        self._raw = mujoco.batch.Batch(self.model, num_envs, nthread=self.batch.nthread)
        self._ctrl, self._substeps = self._raw.bind("ctrl"), task.rules.substeps

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self.given.append(actions)
        return super().step(actions)

    def physics_seconds(self, state: np.ndarray) -> float:
        """Seconds of the same steps from the same state, without anything else. Time-outs are not replayed: they need no physics."""
        self._raw.state[:] = state
        began = time.perf_counter()
        for actions in self.given:
            self._ctrl[:] = actions
            self._raw.step(nstep=self._substeps)
        return time.perf_counter() - began


def started(config: OnPolicyConfig, env: RolloutEnv, folder: Path) -> OnPolicyRun:
    """A run after compilation."""
    run = RunFolder.create(folder, "ppo", config, env.task_spec)
    run.loggers.add(TensorBoard(run.tensorboard))
    parts = OnPolicyRun(config, run, env, Display("quiet"))
    parts.collector.begin()
    for _ in range(2):
        parts.iterate()
    return parts


def iteration_seconds(parts: OnPolicyRun, iterations: int) -> float:
    began = time.perf_counter()
    for _ in range(iterations):
        parts.iterate()
    return (time.perf_counter() - began) / iterations


def endless(config: OnPolicyConfig) -> OnPolicyConfig:
    """The configuration without evaluations and checkpoints."""
    return replace(config, max_iterations=10**6, save_interval=10**6, eval_period=0)


def products(config: OnPolicyConfig, seen: int, done: int) -> Counter[Product]:
    """Every matrix product that an iteration needs, and how often, with the number of rows that the algorithm asks for."""
    agent, count = config.agent, Counter[Product]()
    mini_batch, updates = config.samples // agent.num_mini_batches, agent.num_learning_epochs * agent.num_mini_batches
    networks = ((agent.actor_hidden_dims, done), (agent.critic_hidden_dims, 1))
    for hidden, outputs in networks:
        layers = list(zip((seen, *hidden), (*hidden, outputs), strict=True))
        for index, (i, o) in enumerate(layers):
            count["nn", config.num_envs, i, o] += config.num_steps_per_env  # action and value of every step
            count["nn", mini_batch, i, o] += updates
            count["tn", mini_batch, i, o] += updates
            count["nt", mini_batch, o, i] += updates * (index > 0)  # the gradient of an observation is not needed
    return +count


def parts_of(product: Product) -> list[Product]:
    """A product of many rows can be computed at once or in parts that fit the cache; the faster way counts."""
    kind, rows, inputs, outputs = product
    return [product] + [(kind, CHUNK, inputs, outputs)] * (rows > CHUNK and rows % CHUNK == 0)


class Roofline:
    """Seconds of matrix products, each by the fastest of XLA, NumPy and PyTorch, measured at every turn."""

    def __init__(self, wanted: list[Counter[Product]], peers: Peers, seconds: float) -> None:
        self._wanted, self._peers, self._seconds = wanted, peers, seconds
        self._distinct = sorted({part for count in wanted for product in count for part in parts_of(product)})
        self._xla = {product: XlaProduct(product) for product in self._distinct}

    def measure(self) -> list[float]:
        by_torch = self._peers.ask(products=self._distinct, seconds=self._seconds)
        fastest = {
            product: min(torch, product_with_numpy(product, self._seconds), self._xla[product].seconds(self._seconds))
            for product, torch in zip(self._distinct, by_torch, strict=True)
        }

        def one(product: Product) -> float:
            return min(fastest[part] * product[1] / part[1] for part in parts_of(product))

        return [sum(one(product) * times for product, times in count.items()) for count in self._wanted]


def main(quick: bool = False, json: bool = False) -> None:
    """Compare PPO with other libraries and with the machine.

    Args:
        quick: Few and short turns, to check that it works.
        json: One JSON object instead of a table.
    """
    load = os.getloadavg()[0]
    turns, product_time, rounds = (2, 0.004, 4) if quick else (7, 0.02, 20)
    rsl_rl = PRESETS["rsl_rl"]()
    small = replace(rsl_rl.agent, actor_hidden_dims=HIDDEN, critic_hidden_dims=HIDDEN)
    still_config = endless(replace(rsl_rl, agent=small, num_envs=4096, num_steps_per_env=24))
    gym_config = endless(replace(PRESETS["gym_mujoco"](), task=CHEETAH, num_envs=64, num_steps_per_env=32))
    floor_config = endless(replace(rsl_rl, task=CHEETAH, num_envs=1024, num_steps_per_env=24, init_at_random_ep_len=True))
    spec = Locomotion(CHEETAH).spec
    peers = Peers("ppo_peers.py")
    with tempfile.TemporaryDirectory() as folder:
        still = started(still_config, Still(4096), Path(folder) / "still")
        gym = started(gym_config, BatchEnv(Locomotion(CHEETAH), 64), Path(folder) / "gym")
        recorded = Recorded(1024)
        floor = started(floor_config, recorded, Path(folder) / "floor")
        wanted = [products(still_config, SEEN, DONE), products(floor_config, spec.observation["state"].size, spec.action_dim)]
        roofline = Roofline(wanted, peers, product_time)
        rsl_rl_sizes = {"num_envs": 4096, "num_steps": 24, "observation_dim": SEEN, "action_dim": DONE, "hidden": HIDDEN}
        agent = gym_config.agent
        sb3_sizes = {
            "samples": gym_config.samples,
            "mini_batch": gym_config.samples // agent.num_mini_batches,
            "epochs": agent.num_learning_epochs,
            "hidden": agent.actor_hidden_dims,
        }
        _, setting = peers.ask(sb3=sb3_sizes, iterations=1)
        seconds: dict[str, list[float]] = {}
        for _ in range(turns):
            recorded.given.clear()
            state = np.array(recorded.batch.state)
            turn = {
                "still": iteration_seconds(still, 1),
                "rsl_rl": peers.ask(rsl_rl=rsl_rl_sizes, iterations=1)[0],
                "gym": iteration_seconds(gym, rounds) / gym_config.samples,
                "sb3": 1 / peers.ask(sb3=sb3_sizes, iterations=2)[0],
                "floor_iteration": iteration_seconds(floor, 1),
                "physics": recorded.physics_seconds(state),
            }
            turn["roofline"], turn["floor_roofline"] = roofline.measure()
            for name, value in turn.items():
                seconds.setdefault(name, []).append(value)
    peers.close()
    report = Report("ppo_speed", ("program", "median", "best turn", "notes"), TARGETS)
    _fill(report, {name: np.array(values) for name, values in seconds.items()}, setting)
    report.figures["load"] = load
    report.show(json)
    if not json:
        print(f"this machine: {machine_gflops():.0f} GFLOP/s")


def _fill(report: Report, seconds: dict[str, np.ndarray], setting: tuple[str, int, int]) -> None:
    kind, count, threads = setting
    for name, title, note in (
        ("still", "Tandem, an iteration of 4096 x 24", f"{os.cpu_count()} cores, an environment that takes no time"),
        ("rsl_rl", "rsl_rl, the same", ""),
        ("roofline", "its matrix products alone", "each by the fastest of XLA, NumPy, PyTorch"),
        ("floor_iteration", f"Tandem, {CHEETAH}, 1024 x 24", "preset rsl_rl"),
        ("physics", "its physics alone", ""),
        ("floor_roofline", "its matrix products alone", ""),
    ):
        report.row(title, f"{np.median(seconds[name]):.3f} s", f"{seconds[name].min():.3f} s", note)
    for name, title, note in (
        ("gym", f"Tandem, {CHEETAH}, 64 environments", "preset gym_mujoco"),
        ("sb3", "Stable-Baselines3, the same learning", f"{kind}, environments: {count}, threads: {threads}"),
    ):
        report.row(title, f"{1 / np.median(seconds[name]):,.0f} steps/s", f"{1 / seconds[name].min():,.0f} steps/s", note)

    floor = seconds["physics"] + seconds["floor_roofline"]
    impossible = (seconds["roofline"] > seconds["still"]) | (floor > seconds["floor_iteration"])

    def ratio(above: np.ndarray, below: np.ndarray) -> float:
        return float(np.median(above / below))

    report.figures = {
        "learning_over_rsl_rl": ratio(seconds["still"], seconds["rsl_rl"]),
        "roofline_share": ratio(seconds["roofline"], seconds["still"]),
        "fps_over_sb3": ratio(seconds["sb3"], seconds["gym"]),
        "iteration_over_floor": ratio(seconds["floor_iteration"], floor),
        "impossible_turns": int(impossible.sum()),
        "fps": float(1 / np.median(seconds["gym"])),
    }
    for name, value in report.figures.items():
        report.row(name, f"{value:.3g}", "", " ".join(map(str, TARGETS.get(name, ()))))


if __name__ == "__main__":
    tyro.cli(main)
