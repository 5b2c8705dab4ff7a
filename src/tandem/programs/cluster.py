"""`--launcher ray`: actors on the machines of a Ray cluster, hub and trainer here.

Ray chooses the node (CPU, GPU, a robot as a resource of its own), ships the package, and starts an actor again when its node is gone.
Steps and policies take the same link as everywhere, so the proof that no step is lost or doubled holds here too: Ray carries none of
them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tandem
from tandem.allowed import VARIABLE, code_of
from tandem.envs.shaping import Reward
from tandem.envs.spread import Simulations, SpreadEnv, rows_of
from tandem.envs.task import Practice
from tandem.errors import ConfigError, ServedError, extras_named
from tandem.programs.launcher import Handle, LocalLauncher, Part
from tandem.programs.placed_part import PlacedPart, Seen

LOOK_S = 1.0
"""A look at a placed part waits so long for news of it."""
_WAITS_S = 15.0
_PLACED_S = 120.0
"""For all simulations of PPO to be placed and started."""
_ELSEWHERE = ("actor", "command")
"""Parts that Ray places; the others run here."""
Say = Callable[[str], None]
WITHOUT_RAY = "options of --cluster are for `--launcher ray`; without it everything runs on this machine"


@dataclass(frozen=True)
class ClusterArgs:
    """Where `--launcher ray` starts actors, and what each of them needs."""

    address: str | None = None
    """Address of a Ray cluster that runs (HOST:6379, or auto). Default: Ray is started on this machine and ends with the run."""
    cpus: float = 1.0
    """Cores that Ray reserves for each actor."""
    gpus: float = 0.0
    """GPUs that Ray reserves for each actor."""
    resource: tuple[str, ...] = ()
    """Resources of your own that each actor needs one of, such as `robot`: Ray nodes are started with them."""
    host: str | None = None
    """Address of this machine under which the others reach it; needed for a cluster of several machines."""
    certificate: Path | None = None
    """TLS certificate (PEM) of this machine, for the actors of other machines."""
    key: Path | None = None
    """Private key of the certificate."""
    insecure: bool = False
    """Listen without TLS where other machines can read along; without this, that is refused."""


class RayLauncher:
    """Starts actors, and whole runs of a sweep, on a cluster, and everything else here. `files` are put on the node of each of them;
    `restarted` is called with the name of an actor that Ray has started again."""

    def __init__(
        self,
        cluster: ClusterArgs,
        say: Say,
        *,
        task: str = "",
        files: Mapping[str, bytes] | None = None,
        output: Path | None = None,
        restarted: Say = lambda name: None,
        joins: bool = True,
    ) -> None:
        """`joins`: what is started has to reach a hub on this machine. Runs of a sweep have their own."""
        self._cluster, self._say, self._files, self._output, self._restarted = cluster, say, dict(files or {}), output, restarted
        self._here = LocalLauncher(output)
        self._ray = connect(cluster, task)
        if joins and cluster.host is None:
            _require_one_machine(self._ray, cluster)

    @property
    def places(self) -> int:
        """How many parts have room at the same time."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0) / max(self._cluster.cpus, 0.01)))

    def start(self, part: Part) -> Handle:
        if part.arguments[0] not in _ELSEWHERE:
            return self._here.start(part)
        options = {
            "num_cpus": self._cluster.cpus,
            "num_gpus": self._cluster.gpus,
            "resources": dict.fromkeys(self._cluster.resource, 1.0),
            "max_restarts": -1 if part.arguments[0] == "actor" else 0,  # a whole run is continued by its sweep
            "max_concurrency": 4,  # a look waits for news, and a stop must not wait for it
        }
        output = None if self._output is None else str(self._output.absolute())
        placed = self._ray.remote(PlacedPart).options(**options).remote(part.arguments, self._files, output, str(Path.cwd()))
        return Placed(self._ray, placed, part.name, self._say, self._restarted, "the lines above" if output is None else output)


def connect(cluster: ClusterArgs, task: str) -> Any:
    """The module `ray`, connected: to the cluster that is named, or to one that is started on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    with extras_named("`--launcher ray`"):
        ray = importlib.import_module("ray")
    if ray.is_initialized():
        return ray
    try:
        if cluster.address is None:
            ray.init(address="local", include_dashboard=False, logging_level=logging.ERROR)
        else:
            ray.init(address=cluster.address, runtime_env=shipped(task), logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        raise ConfigError(
            f"no Ray cluster at {cluster.address or 'this machine'}: {problem}. Start one with `ray start --head` on the head node and "
            f"`ray start --address HOST:6379` on the others, with the same versions of Python and Ray."
        ) from None
    return ray


def shipped(task: str) -> dict[str, Any]:
    """What Ray sends to every node: this package, and the module of a task of your own. Other packages must be installed there."""
    modules, code = [str(Path(tandem.__file__).parent)], code_of(task)
    if code and not code.startswith("serve:"):
        spec = importlib.util.find_spec(code.split(".")[0])
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            modules.append(str(origin.parent if origin.name == "__init__.py" else origin))
    return {"py_modules": modules, "env_vars": {VARIABLE: os.environ.get(VARIABLE, "")}}


def _require_one_machine(ray: Any, cluster: ClusterArgs) -> None:
    machines = sorted({node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]})
    if len(machines) > 1:
        raise ConfigError(
            f"the Ray cluster at {cluster.address} has {len(machines)} machines ({', '.join(machines)}), whose actors must reach the hub "
            f"here: give --cluster.host ADDRESS of this machine, and --cluster.certificate and --cluster.key."
        )


class Placed:
    """A part that Ray has placed, or still looks for a place for."""

    def __init__(self, ray: Any, part: Any, name: str, say: Say, restarted: Say, log: str) -> None:
        self._ray, self._part, self._name, self._say, self._restarted, self._log = ray, part, name, say, restarted, log
        self._asked = part.look.remote()
        self._seen: Seen | None = None
        self._since, self._told, self._away = time.monotonic(), False, False

    @property
    def pid(self) -> int:
        return -1 if self._seen is None else self._seen.pid

    @property
    def log(self) -> str:
        return self._log

    @property
    def code(self) -> int | None:
        """By the newest look, which never waits. An actor whose node is gone is alive: Ray starts it again."""
        if self._seen is not None and self._seen.code is not None:
            return self._seen.code
        ready, _ = self._ray.wait([self._asked], timeout=0)
        if not ready:
            self._tell_that_it_waits()
            return None
        try:
            self._take(Seen(*self._ray.get(self._asked)))
        except self._ray.exceptions.ActorDiedError as problem:
            self._say(f"the {self._name} {'was lost' if self._seen else 'could not be started by Ray'}: {problem}")
            self._seen = Seen(-signal.SIGKILL if self._seen else 1, self.pid, "", "")
        except self._ray.exceptions.RayError:
            if not self._away:
                self._say(f"the {self._name} is away: its node or its worker is gone. Ray starts it again")
            self._away = True
        self._asked = self._part.look.remote(LOOK_S)
        return None if self._seen is None else self._seen.code

    def _take(self, seen: Seen) -> None:
        if self._away or (self._seen is not None and self._seen.start != seen.start):
            self._say(f"the {self._name} was started again by Ray, on {seen.host} (pid {seen.pid})")
            self._restarted(self._name)
        self._seen, self._away = seen, False

    def _tell_that_it_waits(self) -> None:
        if self._told or self._seen is not None or time.monotonic() - self._since < _WAITS_S:
            return
        self._told = True
        self._say(
            f"the {self._name} waits for a node with room. The cluster has {_words(self._ray.cluster_resources())}; free are "
            f"{_words(self._ray.available_resources())}. Lower --cluster.cpus, start fewer --actors, or add a node."
        )

    def ask_to_stop(self) -> None:
        self._part.ask_to_stop.remote()

    def stop(self, seconds: float) -> None:
        self.ask_to_stop()
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._seen = Seen(*self._ray.get(self._part.end.remote(seconds), timeout=seconds + 5.0))
        self._ray.kill(self._part, no_restart=True)


def _words(resources: Mapping[str, float]) -> str:
    shown = [f"{count:g} {name}" for name, count in sorted(resources.items()) if not name.startswith(("node:", "object_store", "memory"))]
    return ", ".join(shown) or "nothing"


class RayPlace:
    """Simulations on a node of the cluster."""

    def __init__(self, ray: Any, simulations: Any) -> None:
        self._ray, self._simulations = ray, simulations

    def ask(self, method: str, *arguments: Any, **named: Any) -> Callable[[], Any]:
        answer = self._simulations.call.remote(method, *arguments, **named)
        return lambda: self._answered(answer, method)

    def _answered(self, answer: Any, method: str) -> Any:
        try:
            return self._ray.get(answer)
        except self._ray.exceptions.RayTaskError as problem:
            raise problem.cause from None  # as if it had been raised here
        except self._ray.exceptions.RayActorError as problem:
            raise ServedError(f"simulations on a node of the cluster are gone, in {method}(): {problem}") from None


def simulations_on(cluster: ClusterArgs, collectors: int) -> Callable[..., SpreadEnv]:
    """In place of `make_batch`: the rows on so many places of the cluster."""

    def make(task: str, num_envs: int, *, reward: Reward | None = None, practice: Practice | None = None) -> SpreadEnv:
        ray, rows = connect(cluster, task), rows_of(num_envs, collectors)
        options = {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus, "resources": dict.fromkeys(cluster.resource, 1.0)}
        remote, threads = ray.remote(Simulations).options(**options), max(1, round(cluster.cpus))
        placed = [remote.remote(task, count, reward, practice, threads) for count in rows]
        _, waiting = ray.wait([each.call.remote("described") for each in placed], num_returns=len(placed), timeout=_PLACED_S)
        if waiting:
            raise ConfigError(
                f"{len(waiting)} of {collectors} --collectors found no node with room in {_PLACED_S:.0f} s. The cluster has "
                f"{_words(ray.cluster_resources())}; free are {_words(ray.available_resources())}. Lower --cluster.cpus or "
                f"--collectors, or add a node."
            )
        return SpreadEnv([RayPlace(ray, each) for each in placed], rows)

    return make
