"""LeRobot's SAC for `benchmarks.pixel_learner`: a process in an environment of its own, without Tandem, that measures on request.

Reads one JSON request per line, answers with one line: `{"updates": 2}` -> seconds of a learner step.

A step is one of its learner (`lerobot/rl/learner.py`): two updates of the critics (`utd_ratio` 2), one of the actor and the temperature,
targets, gradient norms, with its default image encoder. Drawing a batch is left out: the same random batch is on hand each time, which
favours it. Its image encoder learns; it would encode every sampled picture again with a frozen one, too.
"""

import json
import os
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch


class Absent(ModuleType):
    """Stands in for torchvision, of which the package index has no build without CUDA. LeRobot imports it for datasets, not for SAC."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else Absent(f"{self.__name__}.{name}")


for absent in ("torchvision", "torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.functional"):
    sys.modules[absent] = Absent(absent)
    sys.modules[absent].__spec__ = ModuleSpec(absent, None)

from lerobot.configs.types import FeatureType, PolicyFeature  # noqa: E402 (after what it imports)
from lerobot.policies.sac.configuration_sac import SACConfig  # noqa: E402
from lerobot.policies.sac.modeling_sac import SACPolicy  # noqa: E402


class Learner:
    """Policy, optimisers and one batch."""

    def __init__(self, numbers: int, actions: int, size: int, cameras: int, batch: int, hidden: list[int], **_):
        names = [f"observation.image.{number}" for number in range(cameras)]
        pictures = {name: PolicyFeature(FeatureType.VISUAL, (3, size, size)) for name in names}
        config = SACConfig(
            input_features={**pictures, "observation.state": PolicyFeature(FeatureType.STATE, (numbers,))},
            output_features={"action": PolicyFeature(FeatureType.ACTION, (actions,))},
            device="cpu",
            storage_device="cpu",
        )
        config.critic_network_kwargs.hidden_dims = list(hidden)
        config.actor_network_kwargs.hidden_dims = list(hidden)
        self.policy, self.clip = SACPolicy(config), config.grad_clip_norm
        own = [p for name, p in self.policy.actor.named_parameters() if not name.startswith("encoder")]
        self.parameters = {"critic": list(self.policy.critic_ensemble.parameters()), "actor": own, "temperature": [self.policy.log_alpha]}
        self.optimisers = {name: torch.optim.Adam(these, lr=3e-4) for name, these in self.parameters.items()}

        def seen():
            return {**{name: torch.rand(batch, 3, size, size) for name in names}, "observation.state": torch.randn(batch, numbers)}

        self.batch = {
            "action": torch.rand(batch, actions) * 2 - 1,
            "reward": torch.zeros(batch),
            "done": torch.zeros(batch),
            "state": seen(),
            "next_state": seen(),
        }

    def descend(self, part: str) -> None:
        loss = self.policy.forward(self.batch, model=part)[f"loss_{part}"]
        self.optimisers[part].zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters[part], self.clip)
        self.optimisers[part].step()

    def step(self) -> None:
        self.descend("critic")
        self.policy.update_target_networks()
        for part in ("critic", "actor", "temperature"):
            self.descend(part)
        self.policy.update_target_networks()


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    learner = Learner(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        updates = json.loads(line)["updates"]
        start = time.perf_counter()
        for _ in range(updates):
            learner.step()
        print(json.dumps((time.perf_counter() - start) / updates), flush=True)


if __name__ == "__main__":
    main()
