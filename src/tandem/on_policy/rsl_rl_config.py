"""Read a runner configuration of rsl_rl 4.x or 5.x: `tandem ppo TASK --rsl-rl-config FILE` (YAML or JSON).

Nothing is guessed. A key is used, or ignored with a printed reason, or refused; an unknown key is refused with the most similar known
name. All problems of a file are reported at once.

    runner      num_steps_per_env, max_iterations, save_interval, seed, obs_groups, logger, ...
    algorithm   PPO's own: clip_param, gamma, schedule, ... with rnd_cfg and symmetry_cfg
    actor       hidden_dims, activation, obs_normalization, rnn_*, and distribution_cfg (5.x) or init_noise_std, ... (4.x)
    critic      the same without a distribution
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tandem.agents.ppo_config import PPOConfig
from tandem.agents.rnd import RNDConfig
from tandem.errors import ConfigError, FileMissing, FileUnreadable
from tandem.networks.mlp import ACTIVATIONS
from tandem.networks.recurrent import RNN_TYPES
from tandem.on_policy.config import OnPolicyConfig

MAX_BYTES, MAX_EVENTS, MAX_DEPTH = 2**20, 20_000, 32
NO_CNN = "convolutional models are not supported yet"
SAME_RUNNER = ("num_steps_per_env", "max_iterations", "save_interval", "seed", "num_envs")
"""Keys with the same name and meaning here. In rsl_rl num_envs belongs to the environment; here it may be in the file too."""
SAME_PPO = (
    "num_learning_epochs", "num_mini_batches", "clip_param", "gamma", "lam", "value_loss_coef", "entropy_coef", "learning_rate",
    "max_grad_norm", "use_clipped_value_loss", "schedule", "desired_kl", "normalize_advantage_per_mini_batch",
)  # fmt: skip
IGNORED = {
    "device": "JAX chooses the device",
    "torch_compile_mode": "XLA compiles everything",
    "check_for_nan": "every observation, reward and gradient is always checked",
    "clip_actions": "actions are always clipped to [-1, 1] for the environment",
    "experiment_name": "use --run to name a run",
    "run_name": "use --run to name a run",
    "load_run": "use `tandem ppo --resume RUN` to resume",
    "load_checkpoint": "use `tandem ppo --resume RUN` to resume",
    "neptune_project": "there is no logger for Neptune",
    "algorithm.use_mixed_precision": "all numbers are float32",
    "algorithm.grad_reduce_bucket_mb": "there is only one learner",
    "algorithm.symmetry_cfg.data_augmentation_func": "a task declares its own symmetry",
}
RUNNER = {
    *SAME_RUNNER, "obs_groups", "logger", "wandb_project", "resume", "class_name", "algorithm", "actor", "critic",
    *(name for name in IGNORED if "." not in name),
}  # fmt: skip
ALGORITHM = {*SAME_PPO, "class_name", "optimizer", "share_cnn_encoders", "rnd_cfg", "symmetry_cfg"}
ALGORITHM |= {"use_mixed_precision", "grad_reduce_bucket_mb"}
SAME_SYMMETRY = ("use_data_augmentation", "use_mirror_loss", "mirror_loss_coeff")
SAME_RND = ("weight", "num_outputs", "learning_rate", "state_normalization", "reward_normalization")
HIDDEN_RND = ("predictor_hidden_dims", "target_hidden_dims")
SCHEDULE = ("initial_step", "final_step", "final_value")
RNN = {"rnn_type", "rnn_hidden_dim", "rnn_num_layers"}
MODEL = {"class_name", "hidden_dims", "activation", "obs_normalization", "cnn_cfg", *RNN}
OLD_DISTRIBUTION = {"stochastic", "init_noise_std", "noise_std_type", "state_dependent_std"}
"""Keys of the actor in 4.x; the critic's `stochastic` is False."""
DISTRIBUTION = {"class_name", "init_std", "std_range", "std_type", "learn_std", "action_range"}


@dataclass(frozen=True)
class Imported:
    config: OnPolicyConfig
    ignored: tuple[str, ...]
    """Ignored keys, each with its reason."""


def read_rsl_rl_config(path: Path, num_envs: int | None = None) -> Imported:
    """The configuration in a file. `num_envs` is checked with it: it must divide into mini-batches."""
    return imported(_read(path) | ({} if num_envs is None else {"num_envs": num_envs}), str(path))


def imported(runner: Mapping[str, Any], what: str = "the configuration") -> Imported:
    """The configuration of a runner dictionary. All problems are reported in one error."""
    reader = _Reader()
    config = reader.runner(runner)
    if reader.problems:
        listed = "\n  ".join(reader.problems)
        raise ConfigError(f"{what} cannot be used as it is:\n  {listed}")
    assert config is not None
    return Imported(config, tuple(reader.ignored))


@dataclass
class _Reader:
    problems: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def runner(self, given: Mapping[str, Any]) -> OnPolicyConfig | None:
        if "policy" in given:
            self.problems.append("policy: a key of rsl_rl before 4.0; since then there are `actor` and `critic`")
        self._known(given, RUNNER | {"policy"}, "")
        self._class(given, "class_name", "", ("OnPolicyRunner",))
        settings: dict[str, Any] = self._same(given, SAME_RUNNER, OnPolicyConfig, "")
        if settings.get("seed", 0) < 0:
            self._refuse("seed", settings["seed"], "a random seed cannot be reproduced; give a number >= 0")
        if given.get("clip_actions") not in (None, 1, 1.0):
            self._refuse("clip_actions", given["clip_actions"], "actions are clipped to [-1, 1]; an action's size is the task's scale")
        if given.get("resume"):
            self._refuse("resume", True, "use `tandem ppo --resume RUN` to resume a run of Tandem")
        entries = self._groups(given.get("obs_groups"))
        agent, rnd = self._algorithm(self._part(given, "algorithm"))
        rnd |= {"rnd_entries": entries.pop("rnd_entries")} if "rnd_entries" in entries else {}
        settings |= self._logger(given) | entries
        models, normalised = self._models(self._part(given, "actor"), self._part(given, "critic"))
        if normalised is not None:
            settings["obs_normalization"] = normalised
        return None if self.problems else self._made(settings, agent | models, rnd)

    def _made(self, settings: dict[str, Any], agent: dict[str, Any], rnd: dict[str, Any]) -> OnPolicyConfig | None:
        try:
            return OnPolicyConfig(agent=PPOConfig(**agent), rnd=RNDConfig(**rnd), **settings)
        except ConfigError as problem:
            self.problems.append(str(problem))
            return None

    # ---- parts

    def _logger(self, given: Mapping[str, Any]) -> dict[str, Any]:
        logger = given.get("logger", "tensorboard")
        name = logger.get("class_name") if isinstance(logger, Mapping) else logger
        if name in ("wandb", "WandbLogWriter"):
            project = (logger.get("project_name") if isinstance(logger, Mapping) else None) or given.get("wandb_project") or "tandem"
            return {"wandb": str(project)}
        if name not in ("tensorboard", "TensorboardLogWriter", None):
            self._refuse("logger", name, "there are tensorboard and wandb")
        elif given.get("wandb_project") is not None:
            self.ignored.append("wandb_project: the logger is TensorBoard")
        return {}

    def _groups(self, groups: Any) -> dict[str, Any]:
        """Observation groups are the entries of a task here. `policy` alone means the default: all entries."""
        if groups is None:
            return {}
        if not isinstance(groups, Mapping):
            self._refuse("obs_groups", groups, "expected a table of sets, each a list of entry names")
            return {}
        self._known(groups, {"actor", "critic", "policy", "rnd_state"}, "obs_groups.")
        wanted = {}
        for ours, name in (("actor_entries", "actor"), ("critic_entries", "critic"), ("rnd_entries", "rnd_state")):
            names = groups.get(name)
            if names is None or list(names) == ["policy"]:
                continue
            if "policy" in names:
                self._refuse(f"obs_groups.{name}", names, "'policy' cannot be combined with other groups here; name the task's entries")
            wanted[ours] = tuple(str(entry) for entry in names)
        return wanted

    def _algorithm(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """PPO's settings, and those of random network distillation."""
        at = "algorithm."
        self._known(given, ALGORITHM, at)
        self._class(given, "class_name", at, ("PPO",), {"Distillation": "`tandem distill` teaches a student"})
        settings = self._same(given, SAME_PPO, PPOConfig, at)
        if settings.get("schedule", "fixed") not in ("adaptive", "fixed"):
            self._refuse(f"{at}schedule", settings["schedule"], "rsl_rl has adaptive and fixed")
        if str(given.get("optimizer", "adam")).lower() != "adam":
            self._refuse(f"{at}optimizer", given["optimizer"], "only adam is supported")
        if given.get("share_cnn_encoders"):
            self._refuse(f"{at}share_cnn_encoders", True, NO_CNN)
        settings |= self._symmetry(self._part(given, "symmetry_cfg", at))
        return settings, self._rnd(self._part(given, "rnd_cfg", at))

    def _symmetry(self, given: Mapping[str, Any]) -> dict[str, Any]:
        at = "algorithm.symmetry_cfg."
        self._known(given, {*SAME_SYMMETRY, "data_augmentation_func"}, at)
        return self._same(given, SAME_SYMMETRY, PPOConfig, at)

    def _rnd(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Random network distillation, with its schedule, which rsl_rl keeps in a table of its own."""
        at = "algorithm.rnd_cfg."
        self._known(given, {*SAME_RND, *HIDDEN_RND, "activation", "weight_schedule"}, at)
        settings = self._same(given, SAME_RND, RNDConfig, at, prefix="rnd_")
        settings |= {f"rnd_{name}": self._units(given[name], f"{at}{name}") for name in HIDDEN_RND if name in given}
        settings |= {f"rnd_{name}": value for name, value in self._shared(given, {}, "activation", ACTIVATIONS).items()}
        if given.get("weight"):
            self.ignored.append(f"{at}weight: used, but not multiplied by the control period as in rsl_rl")
        schedule = self._part(given, "weight_schedule", at)
        self._known(schedule, {"mode", *SCHEDULE}, f"{at}weight_schedule.")
        if schedule:
            settings["rnd_weight_schedule"] = str(schedule.get("mode", "constant"))
            settings |= self._same(schedule, SCHEDULE, RNDConfig, f"{at}weight_schedule.", prefix="rnd_")
        return settings

    def _models(self, actor: Mapping[str, Any], critic: Mapping[str, Any]) -> tuple[dict[str, Any], bool | None]:
        """Settings of both networks, and whether observations are normalised."""
        settings: dict[str, Any] = {}
        for name, given in (("actor", actor), ("critic", critic)):
            at = f"{name}."
            extra = OLD_DISTRIBUTION | {"distribution_cfg"} if name == "actor" else {"stochastic"}
            self._known(given, MODEL | extra, at)
            kind = self._class(given, "class_name", at, ("MLPModel", "RNNModel"), {"CNNModel": NO_CNN})
            if "hidden_dims" in given:
                settings[f"{name}_hidden_dims"] = self._units(given["hidden_dims"], f"{at}hidden_dims")
            if given.get("cnn_cfg") is not None:
                self._refuse(f"{at}cnn_cfg", "a table", NO_CNN)
            if kind == "RNNModel":
                settings |= self._rnn(given, name)
            elif RNN & set(given):
                self._refuse(f"{at}{sorted(RNN & set(given))[0]}", given[sorted(RNN & set(given))[0]], "only an RNNModel has it")
        if critic.get("stochastic"):
            self._refuse("critic.stochastic", True, "a value is a single number here")
        settings |= self._shared(actor, critic, "activation", ACTIVATIONS) | self._distribution(actor)
        normalised = {bool(given["obs_normalization"]) for given in (actor, critic) if "obs_normalization" in given}
        if len(normalised) > 1:
            self._refuse("obs_normalization", "true for one of actor and critic", "both see the same observations; set it for both or none")
        return settings, normalised.pop() if normalised else None

    def _rnn(self, given: Mapping[str, Any], name: str) -> dict[str, Any]:
        kind = str(given.get("rnn_type", "lstm")).lower()
        if kind not in RNN_TYPES:
            self._refuse(f"{name}.rnn_type", kind, f"there are {' and '.join(RNN_TYPES)}")
        sizes = self._same(given, ("rnn_hidden_dim", "rnn_num_layers"), PPOConfig, f"{name}.", prefix=f"{name}_")
        return {f"{name}_rnn_type": kind} | sizes

    def _shared(self, actor: Mapping[str, Any], critic: Mapping[str, Any], name: str, known: Iterable[str]) -> dict[str, Any]:
        values = {str(given[name]).lower() for given in (actor, critic) if name in given}
        for value in sorted(values - set(known)):
            self._refuse(name, value, f"there are {', '.join(known)}")
        if len(values) > 1:
            self._refuse(name, " for the actor and ".join(sorted(values)) + " for the critic or the reverse", "both networks share one")
        return {name: values.pop()} if len(values) == 1 else {}

    def _distribution(self, actor: Mapping[str, Any]) -> dict[str, Any]:
        given = actor.get("distribution_cfg")
        if given is None:
            return self._old_distribution(actor)
        old = sorted(OLD_DISTRIBUTION & set(actor))
        if old:
            self._refuse(f"actor.{old[0]}", actor[old[0]], "a key of rsl_rl 4.x beside the distribution_cfg of 5.x; remove one")
        at = "actor.distribution_cfg."
        self._known(given, DISTRIBUTION, at)
        kinds = ("GaussianDistribution", "HeteroscedasticGaussianDistribution")
        kind = self._class(given, "class_name", at, kinds, {"BetaDistribution": "policies are Gaussian"})
        if given.get("learn_std") is False:
            self._refuse(f"{at}learn_std", False, "the std is always learned")
        if "action_range" in given:
            self._refuse(f"{at}action_range", given["action_range"], "only a Beta distribution has it")
        settings = self._same(given, ("init_std",), PPOConfig, at)
        if "std_range" in given:
            settings["std_range"] = tuple(self._number(bound, f"{at}std_range", float) for bound in given["std_range"])
        return settings | self._std_type(given.get("std_type", "scalar"), kind == kinds[1], f"{at}std_type")

    def _old_distribution(self, actor: Mapping[str, Any]) -> dict[str, Any]:
        """In the form of rsl_rl 4.x."""
        if actor.get("stochastic") is False:
            self._refuse("actor.stochastic", False, "PPO's policy is stochastic")
        settings = {}
        if "init_noise_std" in actor:
            settings["init_std"] = self._number(actor["init_noise_std"], "actor.init_noise_std", float)
        by_state = bool(actor.get("state_dependent_std", False))
        if not {"noise_std_type", "state_dependent_std"} & set(actor):
            return settings
        return settings | self._std_type(actor.get("noise_std_type", "scalar"), by_state, "actor.noise_std_type")

    def _std_type(self, kind: Any, by_state: bool, at: str) -> dict[str, Any]:
        if kind not in ("scalar", "log"):
            self._refuse(at, kind, "rsl_rl has scalar and log")
            return {}
        if by_state and kind == "scalar":
            self._refuse(at, kind, "a std that depends on the state is learned as its logarithm here; use `log`")
        return {"std_type": "state" if by_state else kind}

    # ---- one key

    def _part(self, given: Mapping[str, Any], name: str, at: str = "") -> Mapping[str, Any]:
        """A nested table; None is an empty one."""
        part = given.get(name)
        if part is None or isinstance(part, Mapping):
            return part or {}
        self._refuse(f"{at}{name}", part, "expected a table")
        return {}

    def _known(self, given: Mapping[str, Any], known: set[str], at: str) -> None:
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
                self.problems.append(f"{at}{name}: unknown key" + (f"; did you mean {at}{near[0]}?" if near else ""))
            elif f"{at}{name}" in IGNORED and given[name] is not None:
                self.ignored.append(f"{at}{name}: {IGNORED[f'{at}{name}']}")

    def _class(self, given: Mapping[str, Any], name: str, at: str, known: tuple[str, ...], others: Mapping[str, str] | None = None) -> str:
        """The short name of a class; rsl_rl also accepts `package.module:Name` and `package.module.Name`."""
        asked = str(given.get(name, known[0]))
        short = asked.replace(":", ".").rpartition(".")[2]
        if short not in known:
            self._refuse(f"{at}{name}", asked, (others or {}).get(short, f"there is {' and '.join(known)}"))
        return short

    def _same(self, given: Mapping[str, Any], names: Iterable[str], kind: type, at: str, prefix: str = "") -> dict[str, Any]:
        """Keys with the same meaning here, converted to the type of our setting, whose name begins with `prefix`."""
        types = {entry.name: type(entry.default) for entry in dataclasses.fields(kind)}
        return {f"{prefix}{name}": self._number(given[name], f"{at}{name}", types[f"{prefix}{name}"]) for name in names if name in given}

    def _number(self, value: Any, at: str, kind: type) -> Any:
        """YAML reads `1e-3` as a string, because it has no decimal point; it is accepted as a number."""
        if kind is str or kind is bool:
            if isinstance(value, kind):
                return value
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            try:
                number = float(value)
            except (ValueError, OverflowError):  # a whole number may be larger than any float
                number = float("nan")
            if kind is float and number == number:
                return number
            if kind is int and number.is_integer():
                return int(number)
        self._refuse(at, value, f"expected {({str: 'a string', bool: 'true or false', int: 'an integer', float: 'a number'})[kind]}")
        return kind()

    def _units(self, given: Any, at: str) -> tuple[int, ...]:
        if not isinstance(given, (list, tuple)):
            self._refuse(at, given, "expected a list of units")
            return (1,)
        units = tuple(self._number(size, at, int) for size in given)
        if -1 in units:
            self._refuse(at, list(given), "-1 stands for the number of inputs; write that number")
        return units

    def _refuse(self, at: str, value: Any, why: str) -> None:
        self.problems.append(f"{at} = {value}: {why}")


class _Plain(yaml.SafeLoader):
    """Plain values only. Python tuples, which Isaac Lab writes, become lists."""


_Plain.add_constructor("tag:yaml.org,2002:python/tuple", yaml.SafeLoader.construct_yaml_seq)


def _refuse_bombs(text: str, path: Path) -> None:
    """Look at the events of a file before an object is made of it. A few lines of aliases (`*name`) can stand for gigabytes."""
    depth, deepest, count = 0, 0, 0
    if path.suffix == ".json":
        return  # it has no aliases, and Python bounds its depth
    for count, event in enumerate(yaml.parse(text, Loader=_Plain), start=1):
        if isinstance(event, yaml.AliasEvent):
            raise FileUnreadable(f"{path} uses the alias '*{event.anchor}', which is not read: write its value in its place")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH or count > MAX_EVENTS:
            raise FileUnreadable(f"{path} has more than {MAX_EVENTS:,} entries or is nested more than {MAX_DEPTH} deep: no configuration")


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileMissing(f"there is no configuration {path} (looked in {path.absolute().parent})")
    if path.stat().st_size > MAX_BYTES:
        raise FileUnreadable(f"{path} has {path.stat().st_size:,} bytes; a configuration has at most {MAX_BYTES:,}")
    try:
        text = path.read_text()
        _refuse_bombs(text, path)
        found = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:  # JSON's and Unicode's are ValueErrors
        raise FileUnreadable(
            f"{path} cannot be read: {problem}. It must be YAML or JSON with plain values; Python code is not run."
        ) from problem
    if not isinstance(found, dict):
        raise FileUnreadable(f"{path} holds a {type(found).__name__}, expected a table with a runner's settings")
    return found
