"""Isaac Sim's gear server: the stand-in by curl and by a Socket.IO client of its own, the client against the stand-in. Real sockets."""

import asyncio
import dataclasses
import json
import logging
import string
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import socketio
from scipy.spatial.transform import Rotation

import tandem
from tandem.allowed import code_of
from tandem.envs.http_robot import preflight
from tandem.envs.http_robot.env import RobotEnv
from tandem.envs.http_robot.findings import TEXTS, in_words, report_text
from tandem.envs.http_robot.preflight import Preflight, Report
from tandem.envs.http_robot.profile import TimeProfile
from tandem.envs.http_robot.quaternions import from_euler, from_wire, to_euler, to_wire
from tandem.envs.http_robot.stand_in import StandIn
from tandem.envs.http_robot.wire import Address, Calls
from tandem.envs.isaac.checks import IsaacChecks
from tandem.envs.isaac.env import IsaacDriver, isaac_env, open_isaac
from tandem.envs.isaac.profile import CameraProfile, Profile, profile_names, read_profile
from tandem.envs.isaac.rewards import Judge
from tandem.envs.isaac.stand_in import QUIRKS, isaac_server
from tandem.envs.registry import make_batch, make_env, registered, spec_for
from tandem.envs.rotations import quat_multiply, rotvec_to_quat
from tandem.envs.task_env import TaskEnv
from tandem.errors import ConfigError, ServedError
from tandem.layouts import ActionLayout
from tandem.programs.robot import robot
from tandem.spec import environment_id
from tandem.testing import TaskEnvContract
from tandem.types import Continuous, Discrete
from tests.envs.plain_scene import PlainScene
from tests.waiting import wait_for


def stand_in(*quirks: str, reset_s: float = 0.05) -> StandIn:
    return isaac_server(PlainScene(), quirks, reset_s=reset_s)


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


def profile(**times: float) -> Profile:
    lift = read_profile("gear_lift_10mm")
    return dataclasses.replace(lift, time=dataclasses.replace(TimeProfile(control_hz=50.0, max_episode_steps=6, grace_s=0.6), **times))


def opened(server: StandIn, chosen: Profile | None = None) -> RobotEnv:
    return isaac_env(chosen or profile(), Address.of(f"isaac+{server.address}", "gear_assembly", "isaac"))


def rest(env: TaskEnv) -> np.ndarray:
    action = ActionLayout.of(env.spec).rest[None].copy()
    action[0, 6] = 1.0
    return action


# ---- the stand-in


def curl(server: StandIn, path: str, *options: str) -> tuple[str, str]:
    done = subprocess.run(
        ["curl", "-si", "-m", "5", "-X", "POST", *options, server.address + path], capture_output=True, text=True, check=True
    )
    head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
    return head, body


JSON = ("-H", "Content-Type: application/json", "-d")


def test_answers_are_flasks_own_and_close_the_connection(server: StandIn) -> None:
    head, body = curl(server, "getstate")
    assert head.startswith("HTTP/1.1 200 OK") and "Connection: close" in head and "Content-Type: application/json" in head
    assert body.endswith("}\n") and ", " not in body, "compact, with a newline"
    assert list(json.loads(body)) == ["dq", "force", "gripper_pos", "jacobian", "object_states", "pose", "q", "torque", "vel"]
    assert list(json.loads(body)["object_states"]) == ["gear_base", "gear_medium"]
    assert curl(server, "reset_scene")[1] == '{"message":"Scene reset request enqueued","status":"success"}\n'
    assert curl(server, "clearerr")[1] == "Clear" and curl(server, "update_param")[1] == "Updated"
    assert curl(server, "health", "-X", "GET")[1] == '{"simulation_running":true,"status":"healthy"}\n'


@pytest.mark.parametrize(
    ("body", "status"),
    [("{", 400), ("{}", 500), ('{"arr":[0,0,1]}', 500), ('{"arr":[]}', 200), ('{"arr":[1,2,3,4,5,6,7,8]}', 200)],
)
def test_a_wrong_pose_is_answered_as_the_users_server_does(server: StandIn, body: str, status: int) -> None:
    head, text = curl(server, "pose", *JSON, body)
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert (text == "Moved") == (status == 200) and ("<!doctype html>" in text) == (status != 200)


def test_a_wrong_content_type_and_a_joint_reset_without_a_body(server: StandIn) -> None:
    assert curl(server, "pose")[0].startswith("HTTP/1.1 415 ")
    head, body = curl(server, "jointreset")
    assert head.startswith("HTTP/1.1 500 ") and json.loads(body)["status"] == "error"
    assert curl(server, "jointreset", *JSON, "{}")[1] == '{"status":"success"}\n'


def test_the_gripper_is_measured_or_repeats_whatever_was_sent() -> None:
    with stand_in("gripper-echo", "dead-channels") as server:
        for sent in ("7.5", '"wide"', "null", "1"):
            assert curl(server, "move_gripper", *JSON, '{"gripper_pos":' + sent + "}")[1] == "Moved Gripper"
            assert curl(server, "get_gripper")[1] == '{"gripper":' + sent + "}\n"
        state = json.loads(curl(server, "getstate")[1])
        assert state["q"] == [0.0] * 7 and state["jacobian"] == [[0.0] * 7] * 6, "7 numbers only while they are dead"


def test_a_client_of_somebody_elses_receives_named_jpegs(server: StandIn) -> None:
    received: dict[str, bytes] = {}

    async def look() -> None:
        other = socketio.AsyncClient(reconnection=False)
        other.on("image", lambda data: received.update({data[1 : 1 + data[0]].decode(): data[1 + data[0] :]}))
        await other.connect(server.address, transports=["websocket"])
        for _ in range(200):
            if len(received) == 2:
                break
            await asyncio.sleep(0.02)
        await other.disconnect()

    asyncio.run(look())
    assert sorted(received) == ["wrist_1", "wrist_2"] and all(data.startswith(b"\xff\xd8") for data in received.values())


def test_an_unknown_quirk_is_named() -> None:
    with pytest.raises(ConfigError, match="no quirk 'nonsense'; there are dead-channels"):
        stand_in("nonsense")


# ---- the client


class TestIsaacEnv(TaskEnvContract):
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


def test_steps_build_on_the_last_command_and_stay_in_the_box(server: StandIn) -> None:
    env = opened(server, dataclasses.replace(profile(), action=dataclasses.replace(profile().action, frame="world")))
    env.reset()
    action = rest(env)
    action[0, 2] = -1.0
    for number in range(1, 4):
        step = env.step(action)
        position, turn = env.arm.commanded or (np.zeros(3), np.zeros(4))
        assert np.allclose(position, [0.0, -0.4, 0.55 - 0.01 * number]), "on the last command, whatever was measured"
    assert step.executed is not None and np.allclose(step.executed[0], action[0])
    env.arm.commanded = np.array([0.0, -0.4, 0.413]), turn
    step = env.step(action)
    assert step.executed is not None and np.allclose(step.executed[0, 2], -0.3), "3 mm are left to the floor of the box"
    env.close()


def test_a_step_after_a_halt_goes_on_from_where_the_arm_stopped() -> None:
    with stand_in() as server:
        scene = server.loop._scene
        assert isinstance(scene, PlainScene)
        env = opened(server, profile(max_episode_steps=1000))
        env.reset()
        scene._speed = 0.02  # far slower than it is commanded: the command is ahead
        action = rest(env)
        action[0, 2] = 1.0
        for _ in range(8):
            env.step(action)
        env.halt("a test")
        wait_for(lambda: np.allclose(scene._target, scene.position), what="the arm to stand")
        assert env.arm.commanded is not None and np.linalg.norm(env.arm.commanded[0] - scene.position) < 0.005
        env.step(action)
        assert np.linalg.norm(scene._target - scene.position) < 0.015, "one step of 10 mm, not all that was commanded before"
        env.close()


def test_an_action_in_the_tools_axes_is_turned_by_the_measured_orientation(server: StandIn) -> None:
    env = opened(server)
    env.reset()
    action = rest(env)
    action[0, 0] = 1.0
    before = np.array([0.0, -0.4, 0.55])
    env.step(action)
    assert env.arm.commanded is not None
    assert np.allclose(env.arm.commanded[0] - before, [-0.01, 0.0, 0.0]), "the tool points down: its x is the world's -x"
    env.close()


def test_lifting_the_gear_is_a_success_and_a_time_out_truncates(server: StandIn) -> None:
    env = opened(server)
    env.reset()
    steps = [env.step(rest(env)) for _ in range(6)]
    assert steps[-1].truncated[0] and not steps[-1].terminated[0] and not steps[-2].truncated[0]
    env.reset()
    scene = server.loop._scene
    assert isinstance(scene, PlainScene)
    scene.gear = scene.gear + np.array([0.0, 0.0, 0.1])
    step = wait_for(lambda: (made := env.step(rest(env))).success[0] and made, what="success")
    assert step.terminated[0] and step.reward[0] == 1 and not step.truncated[0]
    env.close()


@pytest.mark.parametrize("quirks", [("async-reset",), ("gripper-echo", "dead-channels")])
def test_a_reset_waits_until_the_arm_has_been_driven_back(quirks: tuple[str, ...]) -> None:
    with stand_in(*quirks, reset_s=0.4) as server:
        env = opened(server)
        for _ in range(2):
            began = time.monotonic()
            observation = env.reset()
            assert time.monotonic() - began > 0.4, "the server was busy for so long"
            assert np.allclose(observation["state"][0, 4:10], 0, atol=1e-3) and observation["state"][0, 0] == 1.0
            scene = server.loop._scene
            assert isinstance(scene, PlainScene) and np.allclose(scene.position, [0.0, -0.4, 0.55], atol=0.02)
        env.close()


def test_no_transition_is_made_of_a_loop_that_stands(caplog: pytest.LogCaptureFixture) -> None:
    with stand_in() as server:
        env = opened(server, profile(max_episode_steps=1000))
        env.reset()
        assert env.step(rest(env)).lost is None
        gate = threading.Event()
        scene = server.loop._scene
        assert isinstance(scene, PlainScene)
        advance = scene.advance
        scene.advance = lambda seconds: (gate.wait(5), advance(seconds))[1]
        with caplog.at_level(logging.WARNING):
            lost = wait_for(lambda: (made := env.step(rest(env))).lost is not None and made, what="the loss")
        assert lost.ended[0] and not (lost.terminated[0] or lost.truncated[0])
        assert "no new picture of wrist_1" in caplog.text, "/getstate still answers from memory"
        gate.set()
        env.reset()
        assert env.step(rest(env)).lost is None, "the next episode goes on"
        env.close()


def test_without_cameras_a_state_that_repeats_itself_while_the_arm_should_move_is_no_transition(caplog: pytest.LogCaptureFixture) -> None:
    with stand_in() as server:
        blind = dataclasses.replace(profile(max_episode_steps=1000), cameras=CameraProfile(()))
        env = opened(server, blind)
        env.reset()
        scene = server.loop._scene
        assert isinstance(scene, PlainScene)
        began = time.monotonic()
        while time.monotonic() - began < 1.2 * blind.time.grace_s:
            assert env.step(rest(env)).lost is None, "an arm that is where it was sent may stand still for as long as it likes"
        scene.advance = lambda seconds: None
        action = rest(env)
        action[0, 2] = 0.3
        steps = 0
        while (step := env.step(action)).lost is None:
            steps += 1
            assert steps < 200
        assert step.lost[0] and not (step.terminated[0] or step.truncated[0])
        assert "has repeated the same state for 0." in caplog.text and "mm from its command" in caplog.text
        env.close()


@pytest.mark.parametrize(("quirks", "seen"), [(("gripper-echo",), 0.5), (("gripper-echo", "dead-channels"), 0.25), ((), 0.5)])
def test_the_opening_is_measured_by_the_fingers_where_the_server_says_where_they_are(quirks: tuple[str, ...], seen: float) -> None:
    with stand_in(*quirks) as server:
        env = opened(server, profile(max_episode_steps=1000))
        env.reset()
        scene = server.loop._scene
        assert isinstance(scene, PlainScene)
        scene.grip = lambda opening: None
        scene.opening = scene._wanted = 0.5  # the fingers hold something that is half as wide
        action = rest(env)
        action[0, 6] = -0.5  # to a quarter
        wait_for(lambda: env.step(action).observation["state"][0, 0] == seen, what=f"an opening of {seen}")
        env.close()


def test_a_server_that_comes_back_in_time_costs_no_step() -> None:
    with stand_in() as server:
        env = opened(server, profile(max_episode_steps=1000))
        env.reset()
        calls = env.arm.calls
        assert calls is not None
        exchange, failures = calls._exchange, iter([True, False, True, False] * 20)

        def sometimes(path: str, data: bytes, until: float) -> bytes:
            if next(failures, False):
                raise ConnectionResetError("connection reset by peer")
            return exchange(path, data, until)

        calls._exchange = sometimes
        assert all(env.step(rest(env)).lost is None for _ in range(5)) and calls.retries >= 5
        env.close()


def test_no_server_and_no_address_are_said() -> None:
    calls = Calls(Address("127.0.0.1", 1, "gear_assembly"))
    with pytest.raises(ServedError, match=r"did not answer /getstate within 0.2 s .*Is it running"):
        calls.ask("getstate", within=0.2)
    for wrong in ("isaac+http://host/", "isaac+http://host:x/", "isaac+http://host:5001/?color=red", "isaac+http://host:5001/path"):
        with pytest.raises(ConfigError, match="is not the address of a robot"):
            make_env(wrong)
    env = open_isaac("isaac:gear_lift_1mm")
    with pytest.raises(ServedError, match="has no address"):
        env.reset()
    with pytest.raises(ConfigError, match="is one robot, got num_envs=2"):
        make_env("isaac:gear_lift_1mm", 2)
    with pytest.raises(ConfigError, match="moves a robot"):
        make_batch("isaac:gear_lift_1mm", 4)


def test_the_halt_of_another_process_reaches_the_arm(server: StandIn) -> None:
    env = opened(server)
    plan = env.capabilities.halt_plan
    assert plan is not None
    sent = len(server.loop.commands)
    subprocess.run([*plan.command], check=True, timeout=30)
    assert len(server.loop.commands) == sent + 1
    env.close()


# ---- the pre-flight


def checked(monkeypatch: pytest.MonkeyPatch, *quirks: str, late_s: float = 0.0) -> Report:
    """`late_s`: how long it takes until a command reaches the arm."""
    monkeypatch.setattr(preflight, "SETTLED_S", 0.15)
    monkeypatch.setattr(preflight, "LOOK_S", 0.3)
    with stand_in(*quirks, reset_s=0.2) as server:
        if late_s:
            go = server.loop._scene.go
            server.loop._scene.go = lambda position, quaternion: threading.Timer(late_s, go, (position, quaternion)).start()
        chosen = read_profile("gear_assembly")
        driver = IsaacDriver(chosen, Address.of(f"isaac+{server.address}", "gear_assembly", "isaac"))
        look = Preflight(chosen, driver, IsaacChecks(chosen, driver))
        try:
            look.look()
            assert not server.loop.commands and not look.report.moved, "looking moves nothing"
            look.move()
        finally:
            look.close()
    return look.report


def test_the_pre_flight_finds_nothing_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    report = checked(monkeypatch)
    assert report.findings == [] and set(report.pictures) == {"wrist_1", "wrist_2"}
    assert "nothing is wrong" in report_text(report, "en") and "没有发现问题" in report_text(report, "zh")
    assert 0 < float(report.figures["lag"].removesuffix(" s")) < preflight.LATE_S
    assert f"Tandem {tandem.__version__}; Werkzeug/" in report.figures["software"] and " Python/3." in report.figures["software"]


def test_the_pre_flight_finds_an_arm_that_is_late_and_measures_all_of_its_motions(monkeypatch: pytest.MonkeyPatch) -> None:
    report = checked(monkeypatch, late_s=0.7)
    assert report.codes == {"lag"} and not report.findings[0].fault, [in_words(finding, "en") for finding in report.findings]
    assert 0.7 < float(report.figures["lag"].removesuffix(" s")) < 1.2 and "control steps" in in_words(report.findings[0], "en")


@pytest.mark.parametrize(
    "quirks",
    [("dead-channels", "gripper-echo", "quat-swap", "async-reset", "crops"), ("flipped-axis", "slow-loop", "no-frames")],
)
def test_the_pre_flight_finds_what_is_wrong_and_says_it_in_two_languages(monkeypatch: pytest.MonkeyPatch, quirks: tuple[str, ...]) -> None:
    report = checked(monkeypatch, *quirks)
    assert report.codes == set(quirks), [in_words(finding, "en") for finding in report.findings]
    for finding in report.findings:
        english, chinese = in_words(finding, "en"), in_words(finding, "zh")
        assert english.isascii() and "{" not in english + chinese and not chinese.isascii()


def test_every_text_has_both_languages_and_the_same_values() -> None:
    for code, (english, chinese) in TEXTS.items():
        named = [{field for _, field, _, _ in string.Formatter().parse(text) if field} for text in (english, chinese)]
        assert named[0] == named[1], code


# ---- profiles, rotations, rewards


def test_every_profile_is_read_and_names_its_task_whatever_the_address() -> None:
    assert {"gear_assembly", "gear_assembly_hold", "gear_lift_10mm", "gear_lift_2mm", "gear_lift_1mm"} == set(profile_names())
    for name in profile_names():
        spec = spec_for(f"isaac:{name}")
        assert spec.task == f"isaac:{name}" and registered(spec.task) is None
        assert environment_id(f"isaac+http://192.168.31.198:5001/?profile={name}") == spec.task == environment_id(spec.task)
        assert code_of(spec.task) == code_of(f"isaac+http://192.168.31.198:5001/?profile={name}") == "", "no code of anybody's own"
        assert list(spec.observation)[:3] == ["state", "wrist_1", "wrist_2"] and spec.action_dim == 7
    assert "hold" in spec_for("isaac:gear_assembly_hold").observation


def test_a_profile_of_your_own_chooses_the_gripper_and_is_refused_with_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[action]\ngripper = "three-way"\n[cameras]\nnames = []\n')
    spec = spec_for(f"isaac:{path}")
    assert spec.task == "isaac:mine" and isinstance(spec.action[1], Discrete) and list(spec.observation) == ["state"]
    path.write_text('[action]\ngripper = "delta"\n')
    assert isinstance(read_profile(str(path)).spec.action[1], Continuous)
    for text, problem in (
        ("[action]\nscale = 1", "scale is unknown; there are position_m"),
        ('[action]\nframe = "hand"', "expected one of tool, world"),
        ("[box]\nlow_m = [0.0, 0.0]", "three low_m below three high_m"),
        ("[reset]\npose = [9.0, 0.0, 0.5, 0.0, 0.0, 0.0]", "outside of the"),
        ("x = ", "is not a TOML file"),
        ("[colour]\na = 1", "there are the tables"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=problem):
            read_profile(str(path))
    with pytest.raises(ConfigError, match="no profile 'nothing': there are gear_assembly"):
        read_profile("nothing")


def test_hil_serls_setup_mode_says_who_holds_the_gripper(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[action]\nsetup_mode = "single-arm-learned-gripper"\n')
    learned = read_profile(str(path)).spec.action[1]
    assert isinstance(learned, Discrete) and learned.choices == ("close", "hold", "open")
    path.write_text('[action]\nsetup_mode = "single-arm-fixed-gripper"\n')
    assert len(read_profile(str(path)).spec.action) == 1
    path.write_text('[action]\nsetup_mode = "dual-arm-learned-gripper"\n')
    with pytest.raises(ConfigError, match="one server moves one arm"):
        read_profile(str(path))
    path.write_text('[action]\nsetup_mode = "single-arm-learned-gripper"\ngripper = "delta"\n')
    with pytest.raises(ConfigError, match="both gripper and setup_mode"):
        read_profile(str(path))


def test_grippers_absolute_delta_and_three_way(server: StandIn) -> None:
    for mode, column, opening in (("absolute", 0.0, 0.5), ("delta", -1.0, 0.95), ("three-way", 0.0, 0.0), ("three-way", 1.0, 1.0)):
        env = opened(server, dataclasses.replace(profile(), action=dataclasses.replace(profile().action, gripper=mode)))
        env.reset()
        action = ActionLayout.of(env.spec).rest[None].copy()
        action[0, 6] = column
        env.step(action)
        assert env.gripper_sent == opening, mode
        env.close()


def test_euler_angles_and_quaternions_of_the_wire() -> None:
    assert np.allclose(np.abs(to_wire(from_euler(np.array([0.0, np.pi, 0.0])))), [0, 1, 0, 0]), "the tool at rest"
    angles = np.array([0.3, -0.4, 0.5])
    assert np.allclose(to_euler(from_euler(angles)), angles)
    assert np.allclose(to_wire(from_euler(angles)), Rotation.from_euler("xyz", angles).as_quat())
    quat = quat_multiply(rotvec_to_quat(np.array([0.1, 0.2, 0.3])), from_euler(angles))
    assert np.allclose(from_wire(to_wire(quat)), quat)


def test_the_assembly_is_done_within_the_users_thresholds_and_held() -> None:
    upright = [0.0, 0.0, 0.0, 1.0]
    base = [0.0, -0.6, 0.3995, *upright]

    def judged(gear: list[float], hold: int, times: int = 1) -> bool:
        judge = Judge(dataclasses.replace(read_profile("gear_assembly").reward, hold_steps=hold), "here")
        judge.begin({"gear_medium": gear, "gear_base": base})
        return [judge.success({"gear_medium": gear, "gear_base": base}) for _ in range(times)][-1]

    on_the_pin = [0.0, -0.6, 0.4006, *upright]
    assert judged(on_the_pin, 0) and not judged(on_the_pin, 3, 2) and judged(on_the_pin, 3, 3)
    assert not judged([0.0021, -0.6, 0.4006, *upright], 0) and judged([0.0019, -0.6, 0.4006, *upright], 0)
    assert not judged([0.0, -0.6, 0.4021, *upright], 0), "not down"
    tilted = to_wire(rotvec_to_quat(np.array([0.1, 0.0, 0.0])))
    assert not judged([0.0, -0.6, 0.4006, *tilted], 0), "cos 0.1 = 0.995 is below 0.996"
    with pytest.raises(ServedError, match="reports 'gear_medium' as None in object_states"):
        Judge(read_profile("gear_assembly").reward, "here").begin({})


def test_the_command_lists_its_quirks_and_refuses_other_machines() -> None:
    command = [sys.executable, "-m", "tandem.cli", "serve-like", "isaac"]
    listed = subprocess.run([*command, "--quirks", "list"], capture_output=True, text=True, check=True)
    assert all(name in listed.stdout for name in QUIRKS)
    refused = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True)
    assert refused.returncode == 2 and "has no token" in refused.stderr


def test_the_command_checks_after_a_typed_yes_and_finds_the_box(server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "LOOK_S", 0.2)
    sent = len(server.loop.commands)
    monkeypatch.setattr("builtins.input", lambda question: "no")
    assert robot("check", f"isaac+{server.address}", out=tmp_path / "report", language="zh") == 0
    assert len(server.loop.commands) == sent, "nothing moved without a yes"
    assert "nothing was moved" in (tmp_path / "report" / "report.md").read_text()
    assert "没有做任何运动" in (tmp_path / "report" / "report.zh.md").read_text() and (tmp_path / "report" / "wrist_1.png").exists()
    with pytest.raises(ConfigError, match="takes isaac"):
        robot("check", "ws://127.0.0.1:1")


def test_the_box_is_that_of_the_positions_that_were_measured(server: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = server.loop._scene
    assert isinstance(scene, PlainScene)
    scene.go(np.array([0.1, -0.5, 0.6]), scene.turn)
    wait_for(lambda: np.allclose(scene.position, [0.1, -0.5, 0.6]), what="the arm")
    assert robot("limits", f"isaac+{server.address}", seconds=0.2, margin_mm=5, out=tmp_path) == 0
    assert "low_m = [0.095, -0.505, 0.595]" in capsys.readouterr().out
    [(name, box)] = tomllib.loads((tmp_path / "box.toml").read_text()).items()
    assert name == "box" and box == {"low_m": [0.095, -0.505, 0.595], "high_m": [0.105, -0.495, 0.605]}
