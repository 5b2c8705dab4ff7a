"""Environments in another process or on another machine, behind the same `TaskEnv`: real processes, sockets and files."""

import ast
import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.proxy import Proxy
from tandem.codec import pack, unpack
from tandem.envs.camera_bytes import RECEIVED
from tandem.envs.foreign import GymnasiumEnv
from tandem.envs.registry import make_batch, make_env, registered, spec_for
from tandem.envs.served import server
from tandem.envs.served.client import Address, Caller, Deadlines, ServedEnv, decode_image
from tandem.envs.served.names import open_served
from tandem.envs.served.process import how_it_ended
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, EnvironmentFailed, EpisodeLost, RenderingUnavailable, ServedError, UnknownTaskError
from tandem.testing import TaskEnvContract
from tests.envs import served_worlds
from tests.envs.strange_envs import strange_module

HERE = Path(__file__).parent
TOKEN = "a-token-of-the-tests"


def local(name: str) -> str:
    return f"serve:{sys.executable}:served_worlds:{name}"


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("TANDEM_TOKEN", TOKEN)
    monkeypatch.setenv("WITNESS", str(tmp_path / "witness"))
    monkeypatch.setenv("HALTED", str(tmp_path / "halted"))


@pytest.fixture
def serving() -> Iterator[Any]:
    """Start `server.py` as a person would, in a process of its own; returns its port and the process."""
    started: list[subprocess.Popen[bytes]] = []

    def serve(env: str, *options: str, port: int = 0, script: Path = Path(server.__file__), cwd: Path | None = None) -> Any:
        port = port or free_port()
        process = subprocess.Popen([sys.executable, str(script), env, "--port", str(port), *options], cwd=cwd)
        started.append(process)
        wait_for_port(port, process)
        return port, process

    yield serve
    for process in started:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("nobody listens")


def zeros(env: TaskEnv) -> np.ndarray:
    return np.zeros((env.num_envs, env.spec.action_dim))


# ---- one contract for the three ends


class TestInThisProcess(TaskEnvContract):
    def make_env(self, num_envs: int) -> TaskEnv:
        return GymnasiumEnv("rail", [served_worlds.Rail() for _ in range(num_envs)])


class TestInAProcessOfOurs(TaskEnvContract):
    max_rows = 2  # each is a process

    def make_env(self, num_envs: int) -> TaskEnv:
        return make_env(local("ServedRail-v0"), num_envs)


class TestOverTheNetwork(TaskEnvContract):
    @pytest.fixture(autouse=True)
    def _serve(self, serving: Any) -> None:
        self.port, _ = serving("served_worlds:ServedRail-v0")

    def make_env(self, num_envs: int) -> TaskEnv:
        return make_env(f"ws://127.0.0.1:{self.port}", num_envs)


class TestARobot(TaskEnvContract):
    """It can be halted, and has a clock of its own."""

    max_rows = 1

    def make_env(self, num_envs: int) -> TaskEnv:
        return make_env(local("ServedRobot-v0"), num_envs)

    def halts(self, env: TaskEnv) -> int:
        halted = Path(os.environ["HALTED"])
        return len(halted.read_text().splitlines()) if halted.exists() else 0


def test_a_served_environment_does_what_it_does_in_this_process() -> None:
    here = GymnasiumEnv("rail", [served_worlds.Rail() for _ in range(2)])
    there = make_env(local("ServedRail-v0"), 2)
    assert dataclasses.replace(there.spec, task="rail") == dataclasses.replace(here.spec, max_episode_steps=20)
    assert there.spec.control_hz == 20
    a, b = here.reset(seeds=[3, 4]), there.reset(seeds=[3, 4])
    random = np.random.default_rng(0)
    for _ in range(40):
        assert all(np.array_equal(a[name], b[name]) for name in a)
        action = random.uniform(-1, 1, (2, 1))
        one, other = here.step(action), there.step(action)
        for field in ("reward", "terminated", "truncated", "success"):
            assert np.array_equal(getattr(one, field), getattr(other, field))
        a, b = one.observation, other.observation
        if one.ended.any():
            rows = np.flatnonzero(one.ended).tolist()
            a, b = here.reset(rows), there.reset(rows)
    there.close()


def test_rows_are_processes_and_step_at_the_same_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEP_TAKES", "0.2")
    env = make_env(local("ServedRobot-v0"), 3)
    env.reset(seeds=[0, 1, 2])
    began = time.monotonic()
    env.step(zeros(env))
    assert time.monotonic() - began < 0.5, "three steps of 0.2 s one after the other take 0.6 s"
    assert len({line.split()[0] for line in (tmp_path / "witness").read_text().splitlines()}) == 3
    env.close()


def test_what_the_environment_declares_comes_along() -> None:
    env = make_env(local("ServedRobot-v0"))
    assert isinstance(env, ServedEnv) and env.rows[0].tandem == {"return_range": [0, 1], "success_key": "success"}
    assert env.capabilities.clock == "real" and env.capabilities.needs_limits and not env.capabilities.renders
    assert env.rows[0].welcome["versions"]["numpy"] == np.__version__ and "python" in env.rows[0].welcome["versions"]
    env.close()


def test_images_come_raw_or_as_the_camera_compressed_them() -> None:
    env = make_env(local("ServedEye-v0"))
    env.reset(seeds=[0])
    seen = env.step(zeros(env)).observation
    assert env.spec.observation["png"].shape == (6, 8, 3) and env.spec.observation["png"].dtype == "uint8"
    assert (seen["raw"] == 1).all() and np.array_equal(seen["raw"], seen["png"])
    jpeg = RECEIVED.of(seen["jpeg"][0])
    assert jpeg is not None and decode_image(server.wire_image(jpeg), (6, 8, 3), "a test").tobytes() == seen["jpeg"].tobytes()
    assert RECEIVED.of(seen["jpeg"][0, :4]) is None, "a part of it is another picture"
    env.close()


def test_an_image_of_another_size_or_kind_is_refused() -> None:
    image = server.wire_image(served_worlds.Eye()._seen()["png"])
    assert decode_image(image, (6, 8, 3), "a test").shape == (6, 8, 3)
    assert decode_image(image, (6, 8, 1), "a test").shape == (6, 8, 1)
    with pytest.raises(ServedError, match="6 x 8, declared is 60 x 80"):
        decode_image(image, (60, 80, 3), "a test")
    with pytest.raises(ServedError, match="cannot be read"):
        decode_image({"codec": "jpeg", "bytes": image["bytes"]}, None, "a test")
    with pytest.raises(TypeError, match="JPEG or PNG"):
        server.wire_image(b"GIF89a....")


def test_a_class_that_is_not_registered_is_served_too() -> None:
    env = make_env(local("Plain"))
    env.reset(seeds=[None])
    step = env.step(np.full((1, 1), 0.5))
    assert step.reward[0] == 1.5 and step.success[0] and step.observation["state"].tolist() == [[0.5, 0.5]]
    with pytest.raises(RenderingUnavailable, match="render_mode"):
        env.render()
    env.close()


def test_pictures_are_drawn_over_there() -> None:
    env = make_env(local("ServedRail-v0"), render=True)
    env.reset(seeds=[0])
    assert env.capabilities.renders and env.render().shape == (8, 10, 3)
    env.close()


def test_ppo_gets_rows_that_reset_in_the_same_step() -> None:
    batch = make_batch(local("ServedRail-v0"), 2)
    first, _ = batch.reset(seed=0)
    again, _ = batch.reset(seed=0)
    assert np.array_equal(first["place"], again["place"]) and not np.array_equal(first["place"][0], first["place"][1])
    for step in range(1, 21):
        observation, reward, terminated, truncated, info = batch.step(np.full((2, 1), -0.2))
        assert truncated.all() == (step == 20) and not terminated.any() and reward.shape == (2,)
        assert np.array_equal(observation["place"], info["final_obs"]["place"]) == (step < 20)
    batch.close()


def test_names_are_known_to_the_registry() -> None:
    assert registered(local("ServedRail-v0")) is None and registered("ws://127.0.0.1:1") is None
    assert spec_for(local("ServedRail-v0")).task == local("ServedRail-v0")
    with pytest.raises(ConfigError, match="reward of its own"):
        make_env(local("ServedRail-v0"), reward="dense")
    with pytest.raises(ConfigError, match="continuous actions"):
        make_env(local("ServedChoosing-v0"))
    with pytest.raises(ConfigError, match="num_envs=0"):
        make_env(local("ServedRail-v0"), 0)
    with pytest.raises(ConfigError, match="serve:PYTHON:module:Id"):
        make_env("serve:python3")
    with pytest.raises(ConfigError, match="ws://HOST:PORT"):
        make_env("ws://127.0.0.1")


# ---- the single file


def test_the_file_is_python_3_9_and_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(server.__file__).read_text(), feature_version=(3, 9))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    foreign = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert foreign == {"numpy", "msgpack", "websockets"}


def test_the_file_can_be_copied_and_served_alone(tmp_path: Path, serving: Any) -> None:
    copied = Path(shutil.copy(server.__file__, tmp_path / "tandem_server.py"))
    (tmp_path / "token.txt").write_text(TOKEN)
    port, _ = serving("served_worlds:ServedRail-v0", "--token-file", "token.txt", script=copied, cwd=tmp_path)
    env = make_env(f"ws://127.0.0.1:{port}")
    env.reset(seeds=[1])
    assert env.step(zeros(env)).observation["place"].shape == (1, 2)
    env.close()


def test_both_ends_pack_the_same_bytes() -> None:
    arrays = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in ("float32", "float64", "int64", "int32", "int8", "uint8", "bool")]
    record = {"arrays": arrays, "one": np.float64(1.5), "text": "x", "bytes": b"y", "none": None}
    assert server.pack(record) == pack(record)
    for mine, theirs in zip(unpack(server.pack(record))["arrays"], server.unpack(pack(record))["arrays"], strict=True):
        assert np.array_equal(mine, theirs) and mine.dtype == theirs.dtype
    assert unpack(server.pack({"a": server.wire_array(np.zeros(2, np.float16))}))["a"].dtype == np.float64
    assert unpack(server.pack({"a": server.wire_array(np.arange(2, dtype=">f4"))}))["a"].tolist() == [0, 1], "the wire is little-endian"


def test_plain_data_leaves_out_what_has_no_encoding() -> None:
    info = {"ok": 1, "big": 2**80, "object": object(), "array": np.zeros(3), "huge": np.zeros(10**6), "list": [1, object(), "x"], 5: None}
    made = server.plain(info)
    assert set(made) == {"ok", "array", "list", "5"} and made["list"] == [1, "x"]
    server.pack(made)


# ---- what goes wrong over there


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no Python interpreter at /nowhere/python"):
        make_env("serve:/nowhere/python:served_worlds:ServedRail-v0")
    with pytest.raises(ConfigError, match=r"there is no Python interpreter at .*bin/python"):
        make_env(f"serve:{tmp_path}:served_worlds:ServedRail-v0")


def test_packages_that_the_other_python_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "msgpack.py").write_text("raise ImportError('not for this Python')")
    (tmp_path / "websockets.py").write_text("raise ImportError('not for this Python')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{HERE}")
    with pytest.raises(ConfigError, match=f"{sys.executable} -m pip install msgpack websockets"):
        make_env(local("ServedRail-v0"))


def test_the_first_folder_of_pythonpath_is_searched_also_in_a_process_with_a_safe_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actors of `tandem train` have PYTHONSAFEPATH, and what they start inherits it."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    make_env(local("ServedRail-v0")).close()


def test_an_environment_that_takes_no_render_mode_can_be_watched_and_cannot_be_filmed(tmp_path: Path, monkeypatch: Any) -> None:
    """People may look at row 0 of an actor: that must not be a reason to fail."""
    drawn = make_env(local("ServedRail-v0"), 2, watched=True)
    drawn.reset(seeds=[0, 1])
    assert drawn.capabilities.renders and drawn.render().shape == (8, 10, 3)
    drawn.close()
    with strange_module(tmp_path):
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        name = f"serve:{sys.executable}:strange:Drive-v0"
        watched = make_env(name, 2, watched=True)
        watched.reset(seeds=[0, 1])
        assert not watched.capabilities.renders and watched.step(np.zeros((2, 1))).reward.tolist() == [0, 0]
        watched.close()
        with pytest.raises(EnvironmentFailed, match="takes no arguments"):
            make_env(name, render=True)


def test_a_module_that_the_other_python_cannot_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownTaskError, match=r"No module named 'no_such_world'.*\n?.*PYTHONPATH=FOLDER"):
        make_env(f"serve:{sys.executable}:no_such_world:X-v0")
    (tmp_path / "needy.py").write_text("import not_installed_anywhere")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no licence')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ConfigError, match="-m pip install not_installed_anywhere"):
        make_env(f"serve:{sys.executable}:needy:X-v0")
    with pytest.raises(EnvironmentFailed, match="RuntimeError: no licence"):
        make_env(f"serve:{sys.executable}:broken:X-v0")


def test_an_id_that_the_module_does_not_have() -> None:
    with pytest.raises(EnvironmentFailed, match="neither registers the id 'ServedBoat-v0'"):
        make_env(local("ServedBoat-v0"))


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("step", EnvironmentFailed, r"failed in step\(\): ValueError: the gripper is empty(.|\n)*served_worlds.py"),
        ("reset", EnvironmentFailed, r"failed in reset\(\): RuntimeError: the drawer is stuck(.|\n)*served_worlds.py"),
        (f"signal {int(signal.SIGKILL)}", ServedError, "was ended by SIGKILL: somebody killed it, or the system was out of memory"),
        (f"signal {int(signal.SIGSEGV)}", ServedError, "was ended by SIGSEGV"),
        ("exit 3", ServedError, "ended by itself with code 3"),
        ("hang", ServedError, r"no answer to step \(call 4\) within 0.5 s"),
        ("shape", ConfigError, r"a reward of shape \(1,\)"),
    ],
)
def test_a_fault_is_named(fault: str, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("TANDEM_ENV_STEP_S", "0.5" if fault == "hang" else "20")
    env = make_env(local("ServedFaulty-v0"))
    env.reset(seeds=[0])
    with pytest.raises(error, match=words):
        for _ in range(3):
            env.step(zeros(env))
        env.reset()
    env.close()


def test_a_late_answer_is_never_taken_for_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEP_TAKES", "0.4")
    monkeypatch.setenv("TANDEM_ENV_STEP_S", "0.2")
    env = make_env(local("ServedRobot-v0"))
    env.reset(seeds=[0])
    with pytest.raises(ServedError, match=r"step \(call 2\)"):
        env.step(zeros(env))
    start = env.reset(seeds=[5])  # the answer to the step arrives first, and is dropped
    again = env.reset(seeds=[5])
    assert np.array_equal(start["place"], again["place"])
    env.close()


def test_an_exit_code_in_words() -> None:
    assert how_it_ended(2).startswith("ended by itself with code 2")
    assert how_it_ended(-9).startswith("was ended by SIGKILL") and how_it_ended(-15) == "was ended by SIGTERM: somebody ended it"


def test_the_process_ends_with_the_one_that_started_it() -> None:
    code = (
        "import os, sys\n"
        "from tandem.envs.served.process import ServedProcess\n"
        "from tandem.envs.served.client import Deadlines\n"
        f"process = ServedProcess({local('ServedRail-v0')!r})\n"
        "process.address(Deadlines())\n"
        "print(process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)])}
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    pid, until = int(made.stdout), time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


# ---- access


def test_a_wrong_token_is_refused(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port, _ = serving("served_worlds:ServedRail-v0")
    monkeypatch.setenv("TANDEM_TOKEN", "another-token")
    with pytest.raises(ServedError, match="does not accept this token"):
        make_env(f"ws://127.0.0.1:{port}")
    monkeypatch.delenv("TANDEM_TOKEN")
    with pytest.raises(ConfigError, match="TANDEM_ENV_TOKEN_FILE"):
        make_env(f"ws://127.0.0.1:{port}")


def test_the_token_may_be_in_a_file_and_is_made_for_its_owner(serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANDEM_TOKEN")
    file = tmp_path / "token"
    port, _ = serving("served_worlds:ServedRail-v0", "--token-file", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("TANDEM_ENV_TOKEN_FILE", str(file))
    make_env(f"ws://127.0.0.1:{port}").close()


def test_other_machines_get_in_with_tls_only() -> None:
    command = [sys.executable, server.__file__, "served_worlds:ServedRail-v0", "--host", "0.0.0.0"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "--certificate" in refused.stderr and "Traceback" not in refused.stderr


def test_nobody_serves_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TANDEM_TOKEN")
    refused = subprocess.run([sys.executable, server.__file__, "served_worlds:ServedRail-v0"], capture_output=True, text=True)
    assert refused.returncode != 0 and "no token" in refused.stderr


def test_tls(serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = write_certificate(tmp_path)
    port, _ = serving("served_worlds:ServedRail-v0", "--certificate", str(certificate), "--key", str(key))
    with pytest.raises(ServedError, match="cannot be trusted"):
        make_env(f"wss://localhost:{port}")
    monkeypatch.setenv("TANDEM_ENV_CA", str(certificate))
    env = make_env(f"wss://localhost:{port}")
    env.reset(seeds=[0])
    assert env.step(zeros(env)).observation["place"].shape == (1, 2)
    env.close()


def write_certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "cert.pem", folder / "key.pem"
    made = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 2 -subj /CN=localhost"
    subprocess.run([*made.split(), "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return certificate, key


def test_bytes_that_are_no_message_end_their_connection_alone(serving: Any) -> None:
    port, process = serving("served_worlds:ServedRail-v0")
    env = make_env(f"ws://127.0.0.1:{port}")
    env.reset(seeds=[0])
    for rubbish in (b"\x00" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(rubbish)
    caller = Caller("a test", Address.of(f"ws://127.0.0.1:{port}"), Deadlines(step=0.5), "another-session")
    assert caller._connection is not None
    caller._connection.send(b"\x00" * 2 * server.MAX_CALL_BYTES)  # too long, and no call
    with pytest.raises(ServedError):
        caller.call("step", action=np.zeros(1), number="seven")
    caller.close()
    assert process.poll() is None and env.step(zeros(env)).reward.shape == (1,)
    env.close()


def test_a_robot_serves_one_client(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port, _ = serving("served_worlds:ServedRobot-v0")
    monkeypatch.setenv("TANDEM_ENV_CONNECT_S", "0.3")
    first = make_env(f"ws://127.0.0.1:{port}")
    with pytest.raises(ServedError, match="1 clients use this environment"):
        make_env(f"ws://127.0.0.1:{port}")
    first.close()
    make_env(f"ws://127.0.0.1:{port}").close()


# ---- halt


def test_halt_reaches_the_environment_while_a_step_is_running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEP_TAKES", "1.5")
    env = make_env(local("ServedRobot-v0"))
    env.reset(seeds=[0])
    stepping = threading.Thread(target=env.step, args=(zeros(env),))
    stepping.start()
    time.sleep(0.2)
    began = time.monotonic()
    env.halt("a test")
    assert time.monotonic() - began < 0.8 and stepping.is_alive()
    assert (tmp_path / "halted").read_text() == "halted\n"
    stepping.join()
    env.close()


def test_motion_stops_when_the_client_is_gone_and_the_episode_is_then_lost(serving: Any, tmp_path: Path) -> None:
    port, _ = serving("served_worlds:ServedRobot-v0", "--grace", "0.3")
    with Proxy(port) as proxy:
        env = make_env(f"ws://127.0.0.1:{proxy.port}")
        env.reset(seeds=[0])
        env.step(zeros(env))
        proxy.refuse()
        time.sleep(0.8)
        assert (tmp_path / "halted").read_text() == "halted\n"
        proxy.accept()
        step = env.step(zeros(env))
        assert step.lost is not None and step.lost.all() and step.ended.all() and not step.truncated.any()
        assert len((tmp_path / "witness").read_text().splitlines()) == 1, "the lost step was not executed"
        env.reset(seeds=[1])
        assert env.step(zeros(env)).lost is None
        env.close()


# ---- connections that break


def test_a_step_whose_answer_was_lost_is_answered_again_and_not_executed_twice(serving: Any, tmp_path: Path) -> None:
    port, _ = serving("served_worlds:ServedRail-v0")
    with Proxy(port) as proxy:
        env = make_env(f"ws://127.0.0.1:{proxy.port}")
        seen = [float(env.reset(seeds=[0])["place"][0, 0])]
        proxy.drop_answers(1)  # the step arrives, its answer does not
        for _ in range(5):
            step = env.step(zeros(env))
            assert step.lost is None
            seen.append(float(step.observation["place"][0, 0]))
        assert proxy.cuts == 1 and isinstance(env, ServedEnv) and env.rows[0].caller.returned == 1
        env.close()
    witnessed = [np.float32(line.split()[3]) for line in (tmp_path / "witness").read_text().splitlines()]
    assert witnessed == [np.float32(place) for place in seen[1:]]


def test_an_episode_is_lost_when_the_server_was_restarted(serving: Any, tmp_path: Path) -> None:
    port, process = serving("served_worlds:ServedRail-v0")
    env = open_served(f"ws://127.0.0.1:{port}", 2)
    env.reset(seeds=[0, 1])
    before = env.step(zeros(env))
    process.kill()
    process.wait()
    serving("served_worlds:ServedRail-v0", port=port)
    step = env.step(zeros(env))
    assert step.lost is not None and step.lost.all() and not step.truncated.any() and not step.terminated.any()
    assert np.array_equal(step.observation["place"], before.observation["place"]), "nothing is invented"
    env.reset(seeds=[0, 1])
    assert env.step(zeros(env)).lost is None
    env.close()


def test_a_server_that_does_not_come_back_is_an_error(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_ENV_STEP_S", "0.5")
    port, process = serving("served_worlds:ServedRail-v0")
    env = make_env(f"ws://127.0.0.1:{port}")
    env.reset(seeds=[0])
    process.kill()
    with pytest.raises(ServedError, match=r"before the deadline of step \(call 2, 0.5 s\)"):
        env.step(zeros(env))
    env.close()


def test_a_batch_for_ppo_does_not_hide_a_lost_episode(serving: Any) -> None:
    port, process = serving("served_worlds:ServedRail-v0")
    batch = make_batch(f"ws://127.0.0.1:{port}", 1)
    batch.reset(seed=0)
    process.kill()
    process.wait()
    serving("served_worlds:ServedRail-v0", port=port)
    with pytest.raises(EpisodeLost, match=r"rows \[0\]"):
        batch.step(np.zeros((1, 1)))
    batch.close()
