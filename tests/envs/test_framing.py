"""Pictures of foreign environments: any layout and size, cropped and resized as a file says, and learned from like any other."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.agents.sac_config import SACConfig
from tandem.data.demos import DemoWriter
from tandem.data.episode import EpisodeRecorder
from tandem.envs.declared import declaration_file, read_mapping
from tandem.envs.framing import Framing, framer
from tandem.envs.registry import make_batch, make_env, spec_for
from tandem.errors import ConfigError, SpecMismatch
from tandem.off_policy.config import TrainConfig
from tandem.off_policy.eyes import open_eyes
from tandem.off_policy.sync import train
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.types import Entry, Transition

FRONT = "tests.envs.framed_envs:Front-v0"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(text: str, name: str = FRONT) -> None:
    file = declaration_file(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


def test_channels_first_become_last_and_grey_three() -> None:
    assert spec_for(FRONT).observation["front"].shape == (84, 100, 3)
    env = make_env(FRONT, 2)
    front = env.reset(seeds=[1, 2])["front"]
    assert front.shape == (2, 84, 100, 3) and front[0, 30].max(axis=0).tolist() == [250, 120, 30], "the dot, on a grey of 30"
    env.close()
    grey = make_env("tests.envs.framed_envs:Grey-v0")
    picture = grey.reset(seeds=[0])["front"][0]
    assert picture.shape == (64, 64, 3) and (picture[..., 0] == picture[..., 2]).all() and picture.max() == 250
    grey.close()


def test_crop_and_size_are_applied_in_this_order_and_said() -> None:
    declare("[pictures.front]\ncrop = [10, 0, 40, 100]\nsize = [32, 80]\n")
    entry = spec_for(FRONT).observation["front"]
    assert entry.shape == (32, 80, 3) and entry.meaning == "(from (3, 84, 100), crop [10, 0, 40, 100])"
    env = make_env(FRONT)
    picture = env.reset(seeds=[3])["front"][0]
    bright = np.flatnonzero(picture[..., 0].max(axis=1) > 140)
    # rows 20 ... 40 of 84 are rows 10 ... 30 of the crop, and 8 ... 24 at 0.8 of its size
    assert (bright.min(), bright.max()) == (8, 23)
    env.close()


def test_many_at_once_are_framed_too_and_so_is_what_an_episode_ended_with() -> None:
    declare("[pictures.front]\nsize = [32, 32]\n")
    batch = make_batch(FRONT, 3)
    observation, _ = batch.reset(seed=0)
    assert observation["front"].shape == (3, 32, 32, 3)
    for _ in range(20):
        observation, *_, info = batch.step(np.full((3, 1), 0.01, np.float32))
    assert info["final_obs"]["front"].shape == (3, 32, 32, 3) and batch.task_spec.observation["front"].shape == (32, 32, 3)
    batch.close()


def test_a_picture_is_averaged_when_it_shrinks() -> None:
    lines = np.zeros((64, 64, 3), np.uint8)
    lines[:, ::2] = 200
    small = framer("t", "eye", Entry((64, 64, 3), "uint8"), Framing(size=(32, 32)))(lines)
    inside = small[4:-4, 4:-4].astype(float)
    assert abs(inside.mean() - 100) < 5 and inside.std() < 30, "neither the light lines alone nor the dark ones"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"front": {"crop": [0, 0, 10]}}, r"'pictures.front.crop' is \[0, 0, 10\], expected \[top, left, height, width\]"),
        ({"front": {"crop": [0, 0, 0, 10]}}, "whole numbers of pixels"),
        ({"front": {"size": [128, 12.5]}}, r"'pictures.front.size' is \[128, 12.5\], expected \[height, width\]"),
        ({"front": {"size": [10**6, 10**6]}}, "expected"),
        ({"front": {"channels": "middle"}}, '"first" or "last"'),
        ({"front": {"zoom": 2}}, "has no setting 'zoom'; there are crop, size and channels"),
        ({"front": [1]}, "a table with `crop`, `size` and `channels`"),
        ([], "a table for each camera"),
    ],
)
def test_a_setting_that_says_nothing_sensible_is_refused(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_mapping({"pictures": given}, "here")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (FRONT, "[pictures.front]\ncrop = [50, 0, 40, 100]\n", r"pictures.front.crop' is \[50, 0, 40, 100\].*part of its 84 x 100 pixels"),
        (FRONT, '[pictures.front]\nchannels = "last"\n', r"channels' is 'last' for the shape \(3, 84, 100\)"),
        (FRONT, "[pictures.state]\nsize = [32, 32]\n", "about the observation entry 'state', expected one of front"),
        ("tests.envs.framed_envs:Rgba-v0", "", r"shape \(64, 64, 4\): neither.*of RGBA leave out the last"),
        ("tests.envs.framed_envs:Unclear-v0", "", r"could be first or last.*\[pictures.front\]"),
    ],
)
def test_a_declaration_that_does_not_fit_the_pictures_is_refused(name: str, text: str, says: str) -> None:
    declare(text, name)
    with pytest.raises(ConfigError, match=says):
        spec_for(name)


def test_pictures_of_floats_are_refused_and_not_rounded_to_black() -> None:
    env = make_env("tests.envs.framed_envs:Floats-v0")
    with pytest.raises(ConfigError, match="'front' as uint8 and handed out float32"):
        env.reset(seeds=[0])
    env.close()


def demonstrations(folder: Path) -> Path:
    env, steps = make_env(FRONT), EpisodeRecorder(spec_for(FRONT), "d")
    with DemoWriter(folder, env.spec) as writer:
        for seed in range(3):
            seen, made = env.reset(seeds=[seed]), list[Transition]()
            steps.begin({name: values[0] for name, values in seen.items()})
            while not made or not made[-1].last:
                action = np.clip(-5 * seen["state"], -1, 1).astype(np.float32)
                step = env.step(action)
                made.append(steps.record(action[0], step))
                seen = step.observation
            writer.add(made)
        env.close()
        return writer.finish()


def test_such_an_environment_is_trained_like_any_other(tmp_path: Path) -> None:
    spec = spec_for(FRONT)
    config = TrainConfig(task=FRONT, agent=SACConfig(hidden=(16, 16)), batch_size=8, training_starts=10, max_steps=5, eval_period=0)
    config = dataclasses.replace(config, final_episodes=1, replay_buffer_capacity=100, demos=(tmp_path / "none.db",))
    with pytest.raises(ConfigError, match=r"multiples of 16.*\[pictures.front\] size = \[128, 128\]"):
        open_eyes(spec, config, tmp_path / "run")
    declare("[pictures.front]\ncrop = [0, 0, 64, 100]\nsize = [32, 48]\n")
    config = dataclasses.replace(config, demos=(demonstrations(tmp_path),))
    train(config, tmp_path / "run", Display("quiet"))
    assert RunFolder.open(tmp_path / "run").spec.observation["front"].picture == (32, 48, 3)
    declare("[pictures.front]\ncrop = [20, 0, 64, 100]\nsize = [32, 48]\n")
    with pytest.raises(SpecMismatch, match=r"the pictures 'front'.*crop \[0, 0, 64, 100\].*crop \[20, 0, 64, 100\]"):
        open_eyes(spec_for(FRONT), config, tmp_path / "run")
