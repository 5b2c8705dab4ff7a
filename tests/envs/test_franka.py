"""hil-serl's Franka server: the stand-in by curl, the client against the stand-in, cameras of all kinds, the pre-flight. Real sockets."""

import dataclasses
import io
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tandem.allowed import code_of
from tandem.envs.franka.cameras import Cameras, open_cameras, opencv, realsense, served
from tandem.envs.franka.checks import FrankaChecks
from tandem.envs.franka.env import FrankaDriver, Strayed, at_target, franka_env
from tandem.envs.franka.profile import CameraProfile, GripperProfile, Profile, RewardProfile, profile_names, read_profile
from tandem.envs.franka.stand_in import QUIRKS, franka_server
from tandem.envs.http_robot import env as robot_env
from tandem.envs.http_robot import preflight
from tandem.envs.http_robot.env import RobotEnv
from tandem.envs.http_robot.findings import in_words
from tandem.envs.http_robot.pictures import Frame, pixels
from tandem.envs.http_robot.preflight import Preflight, Report
from tandem.envs.http_robot.profile import TimeProfile
from tandem.envs.http_robot.stand_in import StandIn
from tandem.envs.http_robot.wire import Address, State
from tandem.envs.registry import make_env, make_expert, registered, spec_for
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, PackageMissing, ServedError
from tandem.layouts import ActionLayout
from tandem.programs.robot import robot
from tandem.programs.serve_like import serve_like
from tandem.spec import environment_id
from tandem.testing import TaskEnvContract
from tandem.types import Discrete
from tests.envs.plain_scene import PlainScene
from tests.waiting import wait_for

HOME = (0.45, 0.0, 0.20, np.pi, 0.0, 0.0)


def stand_in(*quirks: str) -> StandIn:
    scene = PlainScene(home=HOME, noise=1e-6)
    scene.position = np.array(HOME[:3])
    return franka_server(scene, quirks, reset_s=0.05)


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


def profile(**changes: Any) -> Profile:
    """Fast, and without cameras."""
    chosen = read_profile("gear_lift")
    times = TimeProfile(control_hz=50.0, max_episode_steps=6, grace_s=0.5)
    reset = dataclasses.replace(chosen.reset, speed_m_s=1.0)
    return dataclasses.replace(chosen, **{"time": times, "reset": reset, "cameras": {}} | changes)


def place(server: StandIn) -> Address:
    return Address.of(f"franka+{server.address}", "gear_lift", "franka")


def opened(server: StandIn, chosen: Profile | None = None) -> RobotEnv:
    return franka_env(chosen or profile(), place(server))


def rest(env: TaskEnv) -> np.ndarray:
    return ActionLayout.of(env.spec).rest[None].copy()


def scene_of(server: StandIn) -> PlainScene:
    scene = server.loop._scene
    assert isinstance(scene, PlainScene)
    return scene


# ---- the stand-in


def curl(server: StandIn, path: str, *options: str) -> tuple[str, str]:
    done = subprocess.run(
        ["curl", "-si", "-m", "5", "-X", "POST", *options, server.address + path], capture_output=True, text=True, check=True
    )
    head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
    return head, body


JSON = ("-H", "Content-Type: application/json", "-d")
PLAIN = {
    "startimp": "Started impedance", "clearerr": "Clear", "activate_gripper": "Activated", "reset_gripper": "Reset",
    "open_gripper": "Opened", "close_gripper": "Closed", "close_gripper_slow": "Closed", "jointreset": "Reset Joint",
}  # fmt: skip
"""Commands without a body, and what the server says."""


def test_every_endpoint_of_hil_serls_server_is_answered_with_its_words(server: StandIn) -> None:
    for path, said in PLAIN.items():
        assert curl(server, path)[1] == said, path
    head, body = curl(server, "getstate")
    assert head.startswith("HTTP/1.1 200 OK") and "Content-Type: application/json" in head and body.endswith("}\n") and ", " not in body
    state = json.loads(body)
    assert list(state) == ["dq", "force", "gripper_pos", "jacobian", "pose", "q", "torque", "vel"]
    assert [np.shape(state[name]) for name in state] == [(7,), (3,), (), (6, 7), (7,), (7,), (3,), (6,)]
    for path, key in (("getpos", "pose"), ("getvel", "vel"), ("getq", "q"), ("getjacobian", "jacobian"), ("get_gripper", "gripper")):
        assert list(json.loads(curl(server, path)[1])) == [key]
    euler = json.loads(curl(server, "getpos_euler")[1])["pose"]
    assert np.allclose(np.abs(euler[3:]), [np.pi, 0, 0], atol=1e-3) and len(euler) == 6
    assert curl(server, "stopimp")[1] == "Stopped impedance" and curl(server, "startimp")[1] == "Started impedance"


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("pose", '{"arr":[0.45,0,0.2,1,0,0,0]}', 200, "Moved"),
        ("pose", '{"arr":[1,2,3]}', 500, ""),
        ("pose", "{", 400, ""),
        ("pose", "{}", 500, ""),
        ("move_gripper", '{"gripper_pos":204}', 200, "Moved Gripper"),
        ("move_gripper", '{"gripper_pos":"wide"}', 500, ""),
        ("update_param", '{"translational_stiffness":2000}', 200, "Updated compliance parameters"),
        ("update_param", '{"softness":1}', 500, ""),
        ("set_load", '{"mass":0.1,"F_x_center_load":[0,0,0],"load_inertia":[0,0,0,0,0,0,0,0,0]}', 200, "Set Load"),
        ("set_load", '{"mass":0.1}', 500, ""),
    ],
)
def test_bodies_are_taken_and_refused_as_flask_does(server: StandIn, path: str, body: str, status: int, said: str) -> None:
    head, text = curl(server, path, *JSON, body)
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert text == said if said else "<!doctype html>" in text


def test_a_command_without_its_content_type_and_an_unknown_camera(server: StandIn) -> None:
    assert curl(server, "pose")[0].startswith("HTTP/1.1 415 ")
    assert curl(server, "camera/none", "-X", "GET")[0].startswith("HTTP/1.1 404 ")
    assert len(QUIRKS) == 10
    with pytest.raises(ConfigError, match="no quirk 'nonsense'; there are dead-channels"):
        stand_in("nonsense")


def measured(z: float, opening: float, quaternion: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> State:
    nothing = np.zeros(3)
    return State(np.array([0.4, 0.1, z]), np.array(quaternion), np.zeros(6), nothing, nothing, opening, None, {})


# ---- the client


class TestFrankaEnv(TaskEnvContract):
    max_rows = 1
    steps = 4

    @pytest.fixture(autouse=True)
    def _server(self, server: StandIn) -> None:
        self.server = server

    def make_env(self, num_envs: int) -> TaskEnv:
        assert num_envs == 1
        self.made = opened(self.server)
        return self.made

    def halts(self, env: TaskEnv) -> int | None:
        return self.made.arm.halts


def test_a_reset_drives_slowly_with_precise_parameters_and_ends_compliant(server: StandIn) -> None:
    scene_of(server).go(np.array([0.40, 0.05, 0.10]), scene_of(server).turn)
    wait_for(lambda: scene_of(server).position[2] < 0.101, what="the arm away from its start")
    sent: list[tuple[str, Any]] = []
    env = opened(server, profile(reset=dataclasses.replace(profile().reset, speed_m_s=0.5, up_m=0.02)))
    calls = env.arm.need_calls()
    post = calls.post
    calls.post = lambda path, body=None, **rest: (sent.append((path, body)), post(path, body, **rest))[1]
    observation = env.reset()
    named = [path for path, _ in sent if path not in ("getstate", "pose", "clearerr")]
    assert named == ["update_param", "open_gripper", "update_param"]
    softness = [body["translational_clip_x"] for path, body in sent if path == "update_param"]
    assert softness == [0.1, 0.02], "precise on the way, compliant in the episode"
    poses = np.array([body["arr"][:3] for path, body in sent if path == "pose"])
    assert np.linalg.norm(np.diff(poses, axis=0), axis=1).max() < 0.5 / 20 + 2e-3, "never faster than the profile says"
    assert poses[1][2] > poses[0][2] and np.allclose(poses[-1], HOME[:3], atol=1e-6), "up first, then to the start"
    assert np.allclose(observation["state"][0, 4:10], 0, atol=2e-3) and observation["state"][0, 0] > 0.9
    env.close()


def test_steps_build_on_the_measured_pose_and_stay_in_the_box_and_its_angles(server: StandIn) -> None:
    chosen = profile(time=TimeProfile(control_hz=50.0, max_episode_steps=1000, grace_s=0.5))
    env = opened(server, dataclasses.replace(chosen, action=dataclasses.replace(chosen.action, frame="world")))
    env.reset()
    action = rest(env)
    action[0, 0] = 1.0
    measured = env._measured[0]
    env.step(action)
    assert env.arm.commanded is not None and np.allclose(env.arm.commanded[0], measured + np.array([0.01, 0, 0]), atol=1e-9)
    action[0, 0], action[0, 4] = 0.0, 1.0
    for _ in range(14):
        step = env.step(action)
    assert step.executed is not None and abs(step.executed[0, 4]) < 1.0, "0.5 rad about y are allowed; the step is cut off there"
    assert np.degrees(0.5) == pytest.approx(np.degrees(np.arccos(np.clip(abs(_upright(env)), 0, 1))), abs=2.0)
    env.close()


def _upright(env: RobotEnv) -> float:
    """Cosine of the angle between the tool's z and straight down."""
    assert env.arm.commanded is not None
    _, x, y, _ = env.arm.commanded[1]
    return float(1 - 2 * (x * x + y * y))


def test_a_three_way_gripper_is_sent_once_and_does_not_hold_up_the_step(server: StandIn) -> None:
    env = opened(server, profile(time=TimeProfile(control_hz=50.0, max_episode_steps=1000, grace_s=0.5)))
    env.reset()
    sent: list[str] = []
    calls = env.arm.need_calls()
    post = calls.post
    calls.post = lambda path, body=None, **rest: (sent.append(path), post(path, body, **rest))[1]
    for wanted in (1.0, 0.0, 0.0, 1.0, 2.0):  # hold, close, close, hold, open
        action = rest(env)
        action[0, 6] = wanted
        assert (env.step(action).seconds or 9.0) < 0.3
    assert [path for path in sent if "gripper" in path] == ["close_gripper", "open_gripper"]
    env.close()


@pytest.mark.parametrize(
    ("kind", "opening", "sent"), [("robotiq", 1.0, 0), ("robotiq", 0.0, 255), ("franka", 1.0, 204), ("franka", 0.5, 102)]
)
def test_the_two_grippers_count_in_opposite_directions(server: StandIn, kind: Any, opening: float, sent: int) -> None:
    chosen = profile(gripper=GripperProfile(kind), action=dataclasses.replace(profile().action, gripper="absolute"))
    driver = FrankaDriver(chosen, place(server))
    got: list[Any] = []
    driver.arm.post = lambda path, body, within, once=False: got.append((path, body))
    driver.grip(opening, 1.0)
    assert got == [("move_gripper", {"gripper_pos": sent})]


def test_a_hand_that_the_server_believes_open_is_opened_all_the_same() -> None:
    with stand_in("latched-open") as server:
        wait_for(lambda: scene_of(server).opening == 0.0, what="the shut hand")
        env = opened(server)
        assert env.reset()["state"][0, 0] > 0.5
        env.close()
    with stand_in("gripper-dead") as server:
        scene_of(server).grip(0.0)
        wait_for(lambda: scene_of(server).opening == 0.0, what="the shut hand")
        env = opened(server)
        with pytest.raises(ServedError, match=r"was told to open and is at 0\.00"):
            env.reset()
        env.close()


def test_no_transition_is_made_of_a_state_that_repeats_itself(caplog: pytest.LogCaptureFixture) -> None:
    with stand_in() as server:
        env = opened(server, profile(time=TimeProfile(control_hz=50.0, max_episode_steps=1000, grace_s=0.3)))
        env.reset()
        assert env.step(rest(env)).lost is None
        server.loop._scene.state = lambda state=server.loop._state: state  # the feed of the arm stops; the server goes on to answer
        with caplog.at_level(logging.WARNING):
            lost = wait_for(lambda: (made := env.step(rest(env))).lost is not None and made, what="the loss")
        assert lost.ended[0] and "repeats the same state to the last digit" in caplog.text
        env.close()


@pytest.mark.parametrize("quirk", ["quat-swap", "flipped-axis"])
def test_an_arm_that_leaves_where_it_was_told_to_stay_is_stopped(quirk: str) -> None:
    with stand_in(quirk) as server:
        env = opened(server)
        with pytest.raises(Strayed, match=r"was told to stay where it is and moved by .* its controller was stopped"):
            env.reset()
        at = scene_of(server).position.copy()
        curl(server, "pose", *JSON, '{"arr":[0.4,0,0.3,1,0,0,0]}')
        time.sleep(0.1)
        assert np.allclose(scene_of(server).position, at, atol=0.02), "it takes no poses any more"
        env.close()


def test_an_arm_that_still_moves_when_a_reset_begins_has_not_strayed(server: StandIn) -> None:
    scene = scene_of(server)
    env = opened(server)
    env.reset()
    go, scene.go = scene.go, lambda position, quaternion: None  # the last command of an episode goes on for a moment
    go(np.array([0.45, 0.0, 0.39]), scene.turn)
    scene._speed = 0.2
    threading.Timer(0.2, lambda: setattr(scene, "go", go)).start()
    env.reset()
    scene._speed = 2.0
    env.close()


def test_an_arm_that_stopped_itself_goes_on_only_where_the_profile_says_so() -> None:
    with stand_in("reflex") as server:
        scene_of(server).position = np.array([0.45, 0.0, 0.19])
        env = opened(server)
        env.reset()
        assert len(server.loop.commands) > 1, "/clearerr before each pose"
        env.close()
    assert FrankaDriver(profile(clear_errors=False), None).arm._before_pose == ()


def test_a_server_without_a_gripper_is_asked_for_the_parts_of_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot_env, "CONNECT_S", 0.5)
    bare = profile(gripper=GripperProfile("none"), action=dataclasses.replace(profile().action, gripper="none"))
    bare = dataclasses.replace(bare, reset=dataclasses.replace(bare.reset, gripper="keep"))
    with stand_in("no-gripper") as server:
        with pytest.raises(ServedError, match=r'answered /getstate with 500.*write \[gripper\] kind = "none"'):
            opened(server)
        env = opened(server, bare)
        env.reset()
        step = env.step(np.zeros((1, 6), np.float32))
        assert step.lost is None and step.observation["state"][0, 0] == 0.0 and env.spec.action_dim == 6
        env.close()


def test_success_is_a_pose_with_something_in_the_hand() -> None:
    reward = RewardProfile("pose", (0.45, 0.0, 0.15, np.pi, 0.0, 0.0), (0.2, 0.2, 0.03, 0.2, 0.2, 0.2), (0.15, 0.9))

    def judged(z: float, opening: float, quaternion: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)) -> bool:
        return at_target(measured(z, opening, quaternion), reward)

    assert judged(0.14, 0.5) and not judged(0.11, 0.5), "30 mm are allowed"
    assert not judged(0.14, 0.02), "an empty hand"
    assert not judged(0.14, 0.5, (0.98, 0.0, 0.199, 0.0)), "turned by 23 degrees"


def test_names_specs_and_a_missing_operator() -> None:
    assert profile_names() == ["gear_lift", "insertion"]
    spec = spec_for("franka:insertion")
    assert spec.task == "franka:insertion" == environment_id("franka+http://172.16.0.1:5000/?profile=insertion") and spec.action_dim == 6
    assert environment_id("franka+http://172.16.0.1:5000/") == "franka:gear_lift" and registered("franka:gear_lift") is None
    assert code_of("franka:gear_lift") == code_of("franka+http://h:1/") == "" and code_of("serve:python:franka:Id") == "serve:python:franka"
    assert isinstance(spec_for("franka:gear_lift").action[1], Discrete) and "wrist_1" in spec.observation
    with pytest.raises(ConfigError, match="has no scripted operator"):
        make_expert("franka:gear_lift")
    with pytest.raises(ConfigError, match="is one robot, got num_envs=2"):
        make_env("franka:gear_lift", 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[compliance]\nsoftness = 1", "softness is no parameter of the impedance controller; there are translational_stiffness"),
        ("[precision]\ntranslational_stiffness = 9000", "expected a number from 0 to 6000"),
        ("[cameras]\nwrist = 3", r"expected `size`, or a table \[cameras.wrist\]"),
        ('[cameras.wrist]\nkind = "served"', "each .* needs a source"),
        ('[gripper]\nkind = "none"', 'goes with .action. gripper = "none"'),
        ('[reward]\nkind = "pose"\ntarget = [1.0]', "needs six target and threshold"),
        ("[box]\nturn_rad = [0.1, 0.1]", "three angles above 0"),
        ("[errors]\nclear = 1", "clear = true or false"),
        ("[reset]\nspeed_m_s = 0", "above 0"),
    ],
)
def test_a_profile_is_refused_with_reason(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_profile(str(path))


def test_a_short_profile_has_the_defaults_of_this_server(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[action]\nposition_m = 0.005\n[reward]\nkind = "person"\n')
    mine = read_profile(str(path))
    assert mine.action.builds_on == "measured" and mine.action.gripper == "three-way" and mine.box.low_m[0] == 0.3
    assert mine.time.max_episode_steps == 100 and not FrankaDriver(mine, None).success(measured(0.15, 0.5))


# ---- cameras


def jpeg(colour: int) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.full((8, 16, 3), colour, np.uint8)).save(data, "JPEG")
    return data.getvalue()


def test_cameras_of_the_stand_in_are_seen_in_every_step(server: StandIn) -> None:
    env = opened(server, profile(cameras=read_profile("gear_lift").cameras))
    first = env.reset()["wrist_1"]
    action = rest(env)
    action[0, 1] = 1.0
    step = wait_for(lambda: not np.array_equal((made := env.step(action)).observation["wrist_1"], first) and made, what="another picture")
    assert step.lost is None and first.shape == (1, 128, 128, 3)
    env.close()


def test_a_served_jpeg_is_asked_for_again_and_other_things_are_named() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = self.path == "/shot.jpg"
            self.send_response(200 if self.path != "/gone" else 404)
            self.send_header("Content-Type", "image/jpeg" if good else "text/plain")
            self.end_headers()
            self.wfile.write(jpeg(200))

        def log_message(self, format: str, *args: Any) -> None: ...

    web = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{web.server_port}/"
    pictures = served(f"{address}shot.jpg", 100)
    assert next(pictures) == next(pictures) == jpeg(200)
    with pytest.raises(OSError, match="is text/plain; expected image/jpeg"):
        next(served(f"{address}page", 100))
    with pytest.raises(OSError, match="was answered with 404"):
        next(served(f"{address}gone", 100))
    cameras = open_cameras({"top": CameraProfile("served", "/shot.jpg", hz=100)}, address)
    frames = cameras.shelf.wait(("top",), 0.0, 3.0)
    assert pixels("top", frames["top"], (4, 4), (0.0, 0.5, 0.0, 0.5)).shape == (4, 4, 3)
    cameras.close()
    web.shutdown()
    web.server_close()
    with pytest.raises(ConfigError, match="a served camera has an address"):
        open_cameras({"top": CameraProfile("served", "file:///etc/passwd")}, address)


def test_a_camera_that_breaks_is_opened_again_and_says_why() -> None:
    opens: list[int] = []

    def source() -> Generator[bytes]:
        opens.append(1)
        if len(opens) == 1:
            raise OSError("unplugged")
        yield jpeg(9)

    cameras = Cameras({"wrist": source})
    wait_for(lambda: cameras.shelf.newest("wrist"), what="the picture")
    assert len(opens) >= 2
    cameras.close()


class FakeCapture:
    """What OpenCV's VideoCapture does, without a camera."""

    def __init__(self, source: Any) -> None:
        self.source, self.released, self.left = source, False, 1

    def isOpened(self) -> bool:
        return self.source == 3

    def set(self, *_: Any) -> None: ...

    def read(self) -> tuple[bool, np.ndarray]:
        self.left -= 1
        return self.left >= 0, np.array([[[255, 0, 0]]], np.uint8)

    def release(self) -> None:
        self.released = True


def test_opencv_gives_red_green_blue_and_closes_the_camera() -> None:
    made: list[FakeCapture] = []
    cv2 = SimpleNamespace(
        VideoCapture=lambda source: (made.append(FakeCapture(source)), made[-1])[1],
        CAP_PROP_FRAME_WIDTH=3, CAP_PROP_FRAME_HEIGHT=4, CAP_PROP_FPS=5,
    )  # fmt: skip
    pictures = opencv(cv2, CameraProfile("opencv", "3"))
    assert next(pictures).tolist() == [[[0, 0, 255]]]
    with pytest.raises(OSError, match="'3' gives no more pictures"):
        next(pictures)
    with pytest.raises(OSError, match="OpenCV cannot open '/dev/video9'"):
        next(opencv(cv2, CameraProfile("opencv", "/dev/video9")))
    assert all(capture.released for capture in made)


def test_a_realsense_is_found_by_its_number_and_stopped() -> None:
    log: list[Any] = []
    sensor = SimpleNamespace(is_color_sensor=lambda: True, set_option=lambda *what: log.append(what))
    colour = SimpleNamespace(get_data=lambda: np.ones((2, 2, 3), np.uint8))
    pipeline = SimpleNamespace(
        start=lambda config: SimpleNamespace(get_device=lambda: SimpleNamespace(query_sensors=lambda: [sensor])),
        wait_for_frames=lambda ms: SimpleNamespace(get_color_frame=lambda: colour),
        stop=lambda: log.append("stopped"),
    )
    rs = SimpleNamespace(
        camera_info=SimpleNamespace(serial_number="serial"), option=SimpleNamespace(exposure="exposure"),
        stream=SimpleNamespace(color=1), format=SimpleNamespace(rgb8=2),
        context=lambda: SimpleNamespace(devices=[SimpleNamespace(get_info=lambda what: "42")]),
        pipeline=lambda: pipeline, config=lambda: SimpleNamespace(enable_device=log.append, enable_stream=lambda *what: log.append(what)),
    )  # fmt: skip
    pictures = realsense(rs, CameraProfile("realsense", "42", exposure=40000))
    assert next(pictures).shape == (2, 2, 3)
    pictures.close()
    assert log == ["42", (1, 640, 480, 2, 15), ("exposure", 40000), "stopped"]
    with pytest.raises(OSError, match="no RealSense with the serial number 7; there are 42"):
        next(realsense(rs, CameraProfile("realsense", "7")))


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for camera, module, extra in (
        (CameraProfile("opencv", "1"), "cv2", "cameras"),
        (CameraProfile("realsense", "1"), "pyrealsense2", "realsense"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(PackageMissing, match=rf"tandem-rl\[{extra}\]"):
            open_cameras({"wrist": camera}, "http://127.0.0.1:1/")
    with pytest.raises(ServedError, match="cannot be read"):
        pixels("wrist", Frame(1, 0.0, b"no picture"))


# ---- the pre-flight


BUSY = {"slow-answers"}
"""What a machine that runs other tests may be accused of."""


def checked(monkeypatch: pytest.MonkeyPatch, *quirks: str) -> Report:
    monkeypatch.setattr(preflight, "SETTLED_S", 0.15)
    monkeypatch.setattr(preflight, "LOOK_S", 0.2)
    chosen = profile(time=TimeProfile(), cameras=read_profile("gear_lift").cameras)
    with stand_in(*quirks) as server:
        driver = FrankaDriver(chosen, place(server))
        look = Preflight(chosen, driver, FrankaChecks(chosen, driver))
        try:
            look.look()
            assert not server.loop.commands, "looking moves nothing"
            look.move()
        finally:
            look.close()
    return look.report


def test_the_pre_flight_finds_nothing_on_a_clean_server(monkeypatch: pytest.MonkeyPatch) -> None:
    report = checked(monkeypatch)
    assert report.codes <= BUSY, [in_words(finding, "en") for finding in report.findings]
    assert set(report.pictures) == {"wrist_1", "wrist_2"} and report.figures["rotation z"] != "-"


@pytest.mark.parametrize(
    ("quirks", "found"),
    [
        (("dead-channels", "gripper-dead", "no-frames"), {"dead-channels", "gripper-dead", "no-frames"}),
        (("quat-swap",), {"quat-swap", "strayed"}),
        (("flipped-axis",), {"flipped-axis", "strayed"}),
        (("slow-loop",), {"slow-loop"}),
        (("latched-open",), set()),
    ],
)
def test_the_pre_flight_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch, quirks: tuple[str, ...], found: set[str]) -> None:
    report = checked(monkeypatch, *quirks)
    assert report.codes - BUSY == found, [in_words(finding, "en") for finding in report.findings]
    assert all("{" not in in_words(finding, language) for finding in report.findings for language in ("en", "zh"))


def test_the_commands_take_the_address(server: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = len(server.loop.commands)
    assert robot("check", f"franka+{server.address}", look_only=True, out=tmp_path / "report") == 0
    assert len(server.loop.commands) == sent and "nothing was moved" in (tmp_path / "report" / "report.md").read_text()
    assert robot("limits", f"franka+{server.address}", seconds=0.1, out=tmp_path / "box") == 0
    assert "low_m = [" in capsys.readouterr().out and (tmp_path / "box" / "box.toml").read_text().startswith("[box]\nlow_m = [")
    serve_like("franka", quirks="list")
    listed = capsys.readouterr().out
    assert all(name in listed for name in QUIRKS)
    with pytest.raises(ConfigError, match="--speed 99: expected a number above 0, at most 20"):
        serve_like("franka", speed=99)
