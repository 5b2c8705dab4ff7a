"""The command `tandem doctor`: fast, without JAX, in two languages, with an exit status; and the files of a run that met a NaN."""

import json
import os
import re
import resource
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tandem.data.journal import Journal
from tandem.doctor import command
from tandem.doctor.probe import parse_address, probe
from tandem.doctor.replay import replay
from tandem.doctor.watch import LOOK_EVERY_ROWS, watch_trainer
from tandem.envs.reach import SPEC, Reach
from tandem.envs.registry import make_batch
from tandem.errors import ConfigError, FileMissing, FileUnreadable, NotFinite, SimulationDiverged
from tandem.on_policy.config import OnPolicyConfig
from tandem.on_policy.run import train_ppo
from tandem.programs import actor
from tandem.runs.broken import keep_batch, keep_simulation
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tests.doctor.doctor_samples import copy_of, edit_json, first, short_run

WITHOUT_JAX = (
    "import sys; sys.argv = ['tandem', *sys.argv[1:]]; from tandem.cli import main\ntry: main()\nfinally: assert 'jax' not in sys.modules"
)


def doctor(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TANDEM_TOKEN"} | {"COLUMNS": "200"}
    full = [sys.executable, "-c", WITHOUT_JAX, "doctor", *map(str, arguments)]
    return subprocess.run(full, capture_output=True, text=True, timeout=120, env=environment, cwd=cwd)


# ---- output


def test_a_healthy_run_in_both_languages_and_as_json(healthy: Path) -> None:
    english, chinese, data = doctor(healthy), doctor(healthy, "--lang", "zh"), doctor(healthy, "--json")
    assert english.returncode == chinese.returncode == data.returncode == 0, english.stderr
    assert "No problem found" in english.stdout and "没有发现问题" in chinese.stdout
    assert english.stdout.count("✓") == chinese.stdout.count("✓") == 9, "the checklist"
    # the fixed order: initial network, updates, demo buffer, filled, demo path, address, and the three settings
    order = [
        "initial network",
        "new policies",
        "demo buffer",
        "replay buffer filled",
        "demonstration files",
        "address",
        "random_steps",
        "training_starts",
        "steps_per_update",
    ]
    assert [english.stdout.index(question) for question in order] == sorted(english.stdout.index(question) for question in order)
    answer = json.loads(data.stdout)
    assert answer["severity"] in (None, "note") and answer["clocks"]["learner_step"] == 600
    assert all({"name", "severity", "what", "evidence", "cause", "next", "explains"} == finding.keys() for finding in answer["findings"])


def test_the_clocks_of_the_run(healthy: Path) -> None:
    shown = doctor(healthy, "--clocks").stdout
    # one policy every 10 learner steps here
    assert re.search(r"100 learner steps = 10 policies = about \S+ s here = about [\d,]+ actor steps", shown), shown
    rows = [line.split() for line in shown.splitlines() if re.match(r"  (0|50|100|200|500) +\d", line)]
    assert [(row[0], row[1]) for row in rows] == [("0", "0"), ("50", "5"), ("100", "10"), ("200", "20"), ("500", "50")]
    # eight actor steps for each learner step: 100 of those are 800 of these
    assert float(rows[2][3].replace(",", "")) == pytest.approx(800, rel=0.1)
    # the last column is what this run measured: the share of successes as it was logged at that learner step
    name = "environment/episode/success"
    logged = {row["learner_step"]: row[name] for row in RunFolder(healthy).metrics() if name in row}
    assert [row[4] for row in rows[1:]] == [f"{logged[steps]:.0%}" for steps in (50, 100, 200, 500)], rows
    assert len(set(logged.values())) > 1 and "better" not in shown
    assert "middle (200 to 1,000 learner steps)" in shown and "Correct actively" in shown
    assert rows[0][4:] == ["-"]
    chinese = doctor(healthy, "--clocks", "--lang", "zh").stdout
    assert "100 个 Learner 步 = 10 个新策略" in chinese and "积极纠正" in chinese


def test_a_problem_exits_with_2_and_prints_what_to_type(healthy: Path, tmp_path: Path) -> None:
    run = copy_of(healthy, tmp_path / "run")
    edit_json(run / "config.json", lambda described: described["config"].update(random_steps=10**6))
    shown = doctor(run)
    assert shown.returncode == 2
    assert "PROBLEM  still_random" in shown.stdout and "type next: tandem train reach --random-steps 0" in shown.stdout
    assert "✗ random_steps" in shown.stdout


def test_explain_and_wrong_arguments(tmp_path: Path) -> None:
    assert "callback" in doctor("explain", "policies_not_applied").stdout
    assert "回调" in doctor("explain", "policies_not_applied", "--lang", "zh").stdout
    for arguments, says in (
        (("explain", "nothing"), "no finding 'nothing'"),
        (("runs/none",), "not a run folder"),
        ((), "which run?"),
        (("replay", "none.msgpack"), "there is no file"),
        (("127.0.0.1:1", "--token-file", "none"), "cannot read the token file"),
        (("ftp://host",), "neither a run folder nor an address"),
    ):
        shown = doctor(*arguments, cwd=tmp_path)
        assert shown.returncode == 2 and says in shown.stderr and "Traceback" not in shown.stderr, shown.stderr


def test_without_an_argument_it_diagnoses_the_newest_run(healthy: Path, tmp_path: Path) -> None:
    copy_of(healthy, tmp_path / "runs" / "old")
    copy_of(healthy, tmp_path / "runs" / "new")
    os.utime(tmp_path / "runs" / "old", (1, 1))
    assert "runs/new" in doctor(cwd=tmp_path).stdout


def test_watch_ends_with_the_run_and_prints_each_state_once(healthy: Path) -> None:
    shown = doctor(healthy, "--watch")
    assert shown.returncode == 0 and shown.stdout.count("checklist") == 1


def test_addresses(tmp_path: Path) -> None:
    assert parse_address("host", 5588) == ("host", 5588, False)
    assert parse_address("wss://host:1/", 5588) == ("host", 1, True)
    assert parse_address("[::1]:7", 5588) == ("::1", 7, False)
    assert command.DEFAULT_PORT == actor.DEFAULT_PORT and command.TOKEN_VARIABLE == actor.TOKEN_VARIABLE
    for wrong in ("ftp://host", "host:port", ""):
        with pytest.raises(ConfigError):
            parse_address(wrong, 5588)


def test_an_untrusted_certificate(tmp_path: Path) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now()
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now - timedelta(days=2)).not_valid_after(now + timedelta(days=2)).sign(key, hashes.SHA256())
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert probe("127.0.0.1", server.server_port, token="x", tls=True).outcome == "untrusted"
        assert probe("127.0.0.1", server.server_port, token="x", tls=False).outcome == "not_a_hub", "TLS on one side only"
        server.shutdown()


# ---- speed


def test_a_run_of_a_hundred_thousand_steps_is_diagnosed_in_two_seconds(healthy: Path, tmp_path: Path) -> None:
    """CPU seconds, not wall time, since the machine may be busy; the start of Python is included."""
    run = copy_of(healthy, tmp_path / "run")
    with Journal.open(run / "journal.db", read_only=False):
        pass
    connection = sqlite3.connect(run / "journal.db")
    rows = connection.execute("SELECT episode, step, record FROM steps ORDER BY ord LIMIT 1000").fetchall()
    for block in range(100):
        connection.executemany(
            "INSERT INTO steps (source, seq, episode, step, status, record) VALUES (?, ?, ?, ?, 'accepted', ?)",
            [(f"more-{block}", number, *row) for number, row in enumerate(rows)],
        )
    connection.commit()
    connection.close()
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    with (run / "metrics.jsonl").open("w") as file:
        for n in range(1, 10_001):  # a row every 10 of 100,000 learner steps
            file.write(json.dumps(last | {"learner_step": 10 * n, "policy_version": n + 1, "wall_s": 0.1 * n, "actor_step": 10 * n}) + "\n")
    (run / "summary.json").touch()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = doctor(run, "--json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = json.loads(shown.stdout)
    assert answer["clocks"]["actor_step"] > 100_000 and answer["clocks"]["learner_step"] == 100_000
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert work < 2.0, f"{work:.2f} CPU seconds, {answer['seconds']} s for the diagnosis"


# ---- checks inside the loops


def test_a_watch_reports_a_finding_once_and_only_if_it_persists(healthy: Path) -> None:
    watch = watch_trainer(healthy)
    row = json.loads((healthy / "metrics.jsonl").read_text().splitlines()[-1])
    row.pop("eval/success", None)

    def rows(count: int, start: int, **changes: float) -> list[str]:
        reported = []
        for number in range(start, start + count):
            clocks = {"learner_step": 10 * number, "actor_step": 80 * number, "policy_version": number + 1, "wall_s": number}
            reported += watch(row | clocks | changes)
        return reported

    assert not rows(3 * LOOK_EVERY_ROWS, 100), "a healthy row"
    hot = {"actor/temperature": 50.0}
    assert not rows(LOOK_EVERY_ROWS, 200, **hot), "the first time may be temporary"
    [line] = rows(LOOK_EVERY_ROWS, 300, **hot)
    assert "temperature_runaway" in line and "50" in line
    assert not rows(3 * LOOK_EVERY_ROWS, 400, **hot), "once is enough"


def test_watching_costs_a_trainer_little_time(healthy: Path) -> None:
    watch = watch_trainer(healthy)
    row = json.loads((healthy / "metrics.jsonl").read_text().splitlines()[-2])
    for number in range(600):
        watch(row | {"learner_step": number})
    began = time.process_time()
    for number in range(10 * LOOK_EVERY_ROWS):
        watch(row | {"learner_step": 1000 + number})
    per_look = (time.process_time() - began) / 10
    # a look every 20 rows of 10 learner steps: 200 learner steps, a second at least
    assert per_look < 0.05, f"{1e3 * per_look:.1f} ms"


# ---- files of a run that met a NaN


def test_a_diverged_simulation_is_stepped_again(demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure was injected from outside, so the saved states and actions alone do not repeat it."""
    count = iter(range(10_000))
    advance = Reach.advance

    def mad(self: Reach, rows: object, action: np.ndarray, streams: list[np.random.Generator]) -> None:
        if next(count) == 40:
            self._batch.state[:] = np.where(np.abs(self._batch.state) > 0.3, 1e9 * self._batch.state, self._batch.state)
        advance(self, rows, action, streams)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patched:
        patched.setattr(Reach, "advance", mad)
        with pytest.raises(SimulationDiverged, match="tandem doctor replay"):
            short_run(tmp_path / "run", demos=(demos,))
    [kept] = (tmp_path / "run" / "broken").glob("simulation_*")
    lines = list(replay(kept))
    assert lines[1] == "8 simulations, 8 steps"
    assert "It does not fail again" in lines[-1], "the cause was outside the simulation"
    shown = doctor("replay", kept)
    assert shown.returncode == 0 and "MuJoCo reports" in shown.stdout


def test_a_state_that_explodes_explodes_again(tmp_path: Path) -> None:
    env = make_batch("reach", 3)
    env.reset(seed=0)
    env.batch.bind("qvel")[2, 0] = 1e12  # pyright: ignore[reportAttributeAccessIssue]
    state, action = env.state(), np.zeros((3, 3), np.float32)  # pyright: ignore[reportAttributeAccessIssue]
    kept = keep_simulation(tmp_path, "reach", "it broke", state, [action])
    env.close()
    assert kept is not None
    *_, row, _, last = replay(kept)
    assert row.split() == ["0", "1e+12", "2", "0"], "the last step, and the simulation with the largest value"
    assert last.startswith("It fails again at the same step: task 'reach', simulation 2")


def test_a_saved_batch_is_summarised(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batch = {"observations": rng.normal(size=(2, 8, 12)).astype(np.float32), "actions": np.zeros((2, 8, 3), np.float32)}
    batch |= {
        "rewards": np.zeros((2, 8), np.float32),
        "masks": np.ones((2, 8), np.float32),
        "next_observations": batch["observations"].copy(),
    }
    batch["rewards"][1, 3] = 400.0
    batch["next_observations"][0, 2, 5] = np.nan
    batch["observations"][:, :, 9] = 5.0  # columns are in the order of the names: command_offset, tcp_position, tcp_velocity, to_ball
    path = keep_batch(tmp_path, SPEC, 120, "critic/critic_loss is nan", {"critic/critic_loss": float("nan")}, batch)
    assert path is not None
    shown = "\n".join(replay(path))
    assert "learner step 120: critic/critic_loss is nan" in shown
    assert re.search(r"next_observations +2x8x12 .* 1$", shown, re.M), "one value is NaN"
    assert "to_ball[0]: 100.0% clipped" in shown and "400 at (1, 3)" in shown
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileUnreadable):
        list(replay(path))
    with pytest.raises(FileMissing):
        list(replay(tmp_path / "none"))


def test_a_ppo_run_that_meets_a_nan_saves_its_rollout_and_its_simulations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10_000))
    observe = Reach.observe

    def blind(self: Reach, rows: object) -> dict[str, np.ndarray]:
        seen = observe(self, rows)  # pyright: ignore[reportArgumentType]
        return seen | {"to_ball": seen["to_ball"] * np.nan} if next(count) == 12 else seen

    monkeypatch.setattr(Reach, "observe", blind)
    config = OnPolicyConfig(task="reach", num_envs=4, num_steps_per_env=8, max_iterations=4, eval_period=0, final_episodes=0)
    with pytest.raises(NotFinite):
        train_ppo(config, tmp_path / "run", Display("quiet"))
    assert first(tmp_path / "run") == "run_broke"
    monkeypatch.undo()
    [simulation] = (tmp_path / "run" / "broken").glob("simulation_*")
    assert "It does not fail again" in list(replay(simulation))[-1], "the sensor failed, not the physics"
    [batch] = (tmp_path / "run" / "broken").glob("batch_*")
    assert "to_ball" in next(replay(batch))
