"""Exported demonstrations as the peers' own readers see them; runs in the virtual environment of each (`benchmarks/demos.py`).

python demo_readers.py lerobot|robomimic|minari PATH          prints one JSON object
python demo_readers.py make-lerobot PATH                      writes a small dataset with LeRobot itself, to be imported
"""

import json
import sys


def lerobot(path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("ours/exported", root=path)
    items = [dataset[index] for index in range(len(dataset))]
    cameras = dataset.meta.camera_keys
    return {
        "episodes": dataset.num_episodes,
        "steps": len(items),
        "fps": dataset.fps,
        "reward": float(sum(item["next.reward"] for item in items)),
        "actions": float(sum(item["action"].double().sum() for item in items)),
        "pictures": float(sum((items[0][camera] * 255).double().sum() for camera in cameras)),
        "task": items[0]["task"],
    }


def robomimic(path):
    import h5py
    import numpy as np
    from robomimic.utils.dataset import SequenceDataset

    with h5py.File(path) as file:
        keys = tuple(file["data/demo_0/obs"])
    import robomimic.utils.obs_utils as obs_utils

    pictures = [key for key in keys if len(h5py.File(path)[f"data/demo_0/obs/{key}"].shape) == 4]
    modes = {"obs": {"low_dim": [key for key in keys if key not in pictures], "rgb": pictures}}
    obs_utils.initialize_obs_utils_with_obs_specs(modes)
    dataset = SequenceDataset(path, obs_keys=keys, dataset_keys=("actions", "rewards", "dones"), hdf5_use_swmr=False)
    items = [dataset[index] for index in range(len(dataset))]
    return {
        "episodes": len(dataset.demos),
        "steps": len(items),
        "reward": float(sum(item["rewards"].sum() for item in items)),
        "actions": float(np.sum([item["actions"].astype(float).sum() for item in items])),
        "dones": int(sum(item["dones"].sum() for item in items)),
    }


def minari(path):
    import numpy as np
    from minari import MinariDataset

    dataset = MinariDataset(f"{path}/data")
    episodes = list(dataset.iterate_episodes())
    return {
        "episodes": len(episodes),
        "steps": int(sum(len(episode.rewards) for episode in episodes)),
        "reward": float(sum(episode.rewards.sum() for episode in episodes)),
        "actions": float(np.sum([episode.actions.astype(float).sum() for episode in episodes])),
        "terminations": int(sum(episode.terminations.sum() for episode in episodes)),
    }


def make_lerobot(path):
    """Two episodes of 12 frames with a state, a camera (as a film) and rewards."""
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        "observation.images.wrist": {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["a", "b"]},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    }
    dataset = LeRobotDataset.create("theirs/made", fps=10, features=features, root=path, use_videos=True)
    for episode in range(2):
        for frame in range(12):
            picture = np.full((64, 64, 3), 20 * frame, np.uint8)
            last = frame == 11
            dataset.add_frame(
                {
                    "observation.state": np.array([episode, frame, 0], np.float32),
                    "observation.images.wrist": picture,
                    "action": np.array([3.0 * frame, -1.0], np.float32),
                    "next.reward": np.array([float(last)], np.float32),
                    "next.done": np.array([last]),
                    "task": "count",
                }
            )
        dataset.save_episode()
    dataset.finalize()
    return {"episodes": dataset.num_episodes}


if __name__ == "__main__":
    what, path = sys.argv[1:]
    print(json.dumps({"lerobot": lerobot, "robomimic": robomimic, "minari": minari, "make-lerobot": make_lerobot}[what](path)))
