"""Who may do what, with a real hub and real sockets: roles, sources, sessions, names, and the log of it all."""

import contextlib
import http.client
import json
import re
import socket
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from link_samples import SPEC, HubProcess, assert_each_once_in_order, client, make_run, step
from test_hub_security import certificate, still_open
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tandem.codec import pack_transition
from tandem.errors import ConfigError, WrongToken
from tandem.link.access import AccessFile
from tandem.link.audit import MAX_BYTES, Audit
from tandem.link.commands import COMMANDS
from tandem.link.hub import Hub, HubConfig
from tandem.link.messages import PROTOCOL, Command, EpisodeEnd, Hello, Welcome, parse
from tandem.link.roles import ALLOWED, IN_WORDS, ROLES, Role, may, right_for
from tandem.link.steps import EPISODE_END, Record, Steps
from tandem.runs.folder import RunFolder
from tandem.runs.lines import read_rows
from tests.waiting import wait_for

Answer = tuple[int, str, dict[str, str]]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    run = make_run(tmp_path_factory.mktemp("access") / "run")
    with HubProcess(run, timeout_s=1.0) as hub:
        yield hub


@pytest.fixture(scope="module")
def tokens(hub: HubProcess) -> dict[Role, str]:
    """One of each role."""
    return {role: AccessFile(RunFolder(hub.run)).add(f"the {role}", role) for role in ROLES}


def ask(hub: HubProcess, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
    """Any request, without following a redirect."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=10)
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body), {name.replace("_", "-"): text for name, text in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def bearer(token: str) -> str:
    return f"Bearer {token}"


def command(hub: HubProcess, token: str, name: str, detail: dict[str, Any] | None = None, to: str = "all") -> int:
    body = {"command": name, "to": to, "detail": detail or {}}
    return ask(hub, "/api/command", method="POST", body=body, Authorization=bearer(token))[0]


def audit(hub: HubProcess) -> list[dict[str, Any]]:
    return list(read_rows(hub.run / "audit.jsonl"))


# ---- the table


def test_every_command_needs_a_right_of_the_table_and_every_right_is_in_words() -> None:
    rights = {right_for(name, detail) for name in COMMANDS for detail in ({}, {"stay": True})}
    assert rights <= ALLOWED.keys() and ALLOWED.keys() == IN_WORDS.keys()
    assert {right for right in ALLOWED if may("viewer", right)} == {"ask_how_it_is", "see", "watch", "stop_robot"}
    assert {right for right in ALLOWED if may("actor", right)} == {"join", "ask_how_it_is"}
    assert all(may("admin", right) for right in ALLOWED)
    assert not may("operator", "end_run") and may("operator", "resume")


@pytest.mark.parametrize("role", ROLES)
def test_a_role_gives_the_commands_of_the_table_and_no_others(hub: HubProcess, tokens: dict[Role, str], role: Role) -> None:
    """Over the API. `stop` of the whole run is tried by those alone who may not."""
    for name in COMMANDS:
        for detail in ({}, {"stay": True}) if name == "stop" else ({},):
            allowed = may(role, right_for(name, detail)) and role != "actor"
            if allowed and name == "stop" and not detail:
                continue
            assert command(hub, tokens[role], name, detail) == (200 if allowed else 403), (role, name, detail)


def test_stop_with_stay_stops_robots_and_not_the_run(hub: HubProcess, tokens: dict[Role, str]) -> None:
    body = {"command": "stop", "to": "all", "detail": {"stay": True}}
    status, text, _ = ask(hub, "/api/command", method="POST", body=body, Authorization=bearer(tokens["viewer"]))
    assert status == 200 and "trainer" not in json.loads(text)["told"]


def test_a_refusal_says_who_you_are_and_who_may(hub: HubProcess, tokens: dict[Role, str]) -> None:
    body = {"command": "resume"}
    status, text, _ = ask(hub, "/api/command", method="POST", body=body, Authorization=bearer(tokens["viewer"]))
    assert status == 403 and "'the viewer' is a viewer and may not let a robot move again" in text and "operator" in text


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_may_read(hub: HubProcess, tokens: dict[Role, str], role: Role) -> None:
    for path in ("/api/status", "/api/clocks", "/api/findings"):  # `tandem doctor HOST:PORT` on a robot's computer
        assert ask(hub, path, Authorization=bearer(tokens[role]))[0] == 200
    for path in ("/api/actors", "/api/metrics", "/api/events"):
        assert ask(hub, path, Authorization=bearer(tokens[role]))[0] == (403 if role == "actor" else 200), path
    me = json.loads(ask(hub, "/api/me", Authorization=bearer(tokens[role]))[1])
    assert me["name"] == f"the {role}" and me["role"] == role


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_token_that_is_not_an_actors_does_not_join(hub: HubProcess, tokens: dict[Role, str], role: Role, tmp_path: Path) -> None:
    with pytest.raises(WrongToken, match="--role actor"):
        client(hub, tmp_path, token=tokens[role]).connect(10)


def test_an_actor_cannot_give_commands_to_others(hub: HubProcess, tokens: dict[Role, str], tmp_path: Path) -> None:
    robot, other = client(hub, tmp_path / "a"), client(hub, tmp_path / "b", token=tokens["actor"], name="other")
    robot.connect()
    other.connect()
    other.command(Command("pause", "all", {}))
    other.command(Command("stop", "all", {}))
    wait_for(
        lambda: sum(row["who"] == "the actor" and row["via"] == "link" and not row["allowed"] for row in audit(hub)) >= 2,
        5,
        "both are refused",
    )
    assert robot.commands() == [] and not any(row["from"].endswith("the actor") for row in read_rows(hub.run / "commands.jsonl"))
    robot.close()
    other.close()


# ---- sources


@contextlib.contextmanager
def joined(hub: HubProcess, token: str, source: str) -> Iterator[ClientConnection]:
    """An actor that says of itself what it likes."""
    with connect(f"ws://{hub.address}/link", additional_headers={"Authorization": bearer(token)}, proxy=None) as link:
        link.send(Hello(PROTOCOL, SPEC.task, SPEC.hash, SPEC.to_json(), "forger", source, "realtime", 1, "").pack())
        assert isinstance(parse(_bytes(link.recv(timeout=5)), ("welcome", "refused", "policy", "command")), Welcome)
        yield link


def _bytes(data: str | bytes) -> bytes:
    assert isinstance(data, bytes)
    return data


def forge(link: ClientConnection, source: str, seqs: range) -> None:
    """Send steps under a source, and wait until the hub has had enough."""
    records = [Record(source, seq, pack_transition(step(seq, source, episode=7))) for seq in seqs]
    link.send(Steps(1, True, records).pack())
    with pytest.raises(ConnectionClosed, match="belongs to"):
        while True:
            link.recv(timeout=5)


def test_forged_steps_of_another_robot_are_refused_and_counted_also_after_a_restart(tmp_path: Path) -> None:
    """Defect 7: the forger was first, with the numbers that the robot would use next, and 30 of its 30 steps were replaced."""
    run = make_run(tmp_path / "run")
    known = AccessFile(RunFolder(run))
    left, right = known.add("left", "actor"), known.add("right", "actor")
    with HubProcess(run) as hub:
        robot = client(hub, tmp_path / "spool", token=left)
        robot.connect()
        mine = f"{robot.source}.0"
        robot.send([step(seq, mine) for seq in range(10)])
        wait_for(lambda: robot.status.unacknowledged == 0, 5, "the robot's steps are stored")
        with joined(hub, right, "forger") as link:
            forge(link, mine, range(10, 40))
        wait_for(lambda: hub.api("status")["foreign_steps"] == 30, 5, "they are counted")
        assert "belongs to the credential 'left', not to 'right'" in hub.api("status")["foreign_detail"]
        assert [actor["foreign"] for actor in hub.api("actors") if actor["name"] == "forger"] == [30]
        hub.kill()
        hub.start()
        with joined(hub, right, "forger") as link:  # a restarted hub has not forgotten whose they are
            forge(link, mine, range(10, 40))
        wait_for(lambda: robot.status.connected, 10, "the robot is back")
        robot.send([step(seq, mine) for seq in range(10, 40)])
        assert robot.close() == 0
    assert_each_once_in_order(run, {mine: 40})


def test_a_source_cannot_be_taken_over_in_the_greeting(tmp_path: Path) -> None:
    """It would close the robot's own connection."""
    run = make_run(tmp_path / "run")
    thief = AccessFile(RunFolder(run)).add("thief", "actor")
    with HubProcess(run) as hub:
        robot = client(hub, tmp_path / "spool")
        robot.connect()
        with connect(f"ws://{hub.address}/link", additional_headers={"Authorization": bearer(thief)}, proxy=None) as link:
            link.send(Hello(PROTOCOL, SPEC.task, SPEC.hash, SPEC.to_json(), "thief", robot.source, "realtime", 1, "").pack())
            answer = parse(_bytes(link.recv(timeout=5)), ("welcome", "refused"))
            assert getattr(answer, "code", "") == "source"
        assert robot.status.connected and robot.status.reconnects == 0
        robot.close()


def test_nobody_discards_an_episode_of_another_source(tmp_path: Path) -> None:
    """The end of an episode names its source a second time, in its own bytes."""
    run = make_run(tmp_path / "run")
    other = AccessFile(RunFolder(run)).add("other", "actor")
    with HubProcess(run) as hub:
        robot = client(hub, tmp_path / "spool")
        robot.connect()
        robot.send([step(seq, robot.source) for seq in range(5)])
        wait_for(lambda: robot.status.unacknowledged == 0, 5, "the robot's steps are stored")
        with joined(hub, other, "other") as link:
            end = EpisodeEnd(robot.source, 0, 5, kept=False, success=None)
            link.send(Steps(1, True, [Record("other", EPISODE_END, end.pack())]).pack())
            wait_for(lambda: parse(_bytes(link.recv(timeout=5)), ("acknowledged", "credit", "policy", "heard", "command")), 5)
        robot.close()
    assert_each_once_in_order(run, {robot.source: 5})
    assert not (run / "episodes.jsonl").exists() or not list(read_rows(run / "episodes.jsonl"))


def test_a_new_actor_sends_what_an_earlier_one_left_behind_also_with_a_new_token_of_the_same_name(tmp_path: Path) -> None:
    run, spool = make_run(tmp_path / "run"), tmp_path / "spool"
    known = AccessFile(RunFolder(run))
    first = client_of(known.add("left", "actor"))
    with HubProcess(run) as hub:
        dead = first(hub, spool)
        dead.connect()
        dead.send([step(seq, "old.0") for seq in range(5)])
        wait_for(lambda: dead.status.unacknowledged == 0, 5, "they are stored")
        hub.kill()
        dead.send([step(seq, "old.0") for seq in range(5, 10)])
        assert dead.close(0.1) == 5
        known.revoke("left")
        other, again = client_of(known.add("right", "actor")), client_of(known.add("left", "actor"))
        hub.start()
        stranger = other(hub, spool)  # the same folder, another robot: it leaves them alone
        stranger.connect()
        stranger.send([step(0, "right.0")])
        assert stranger.close() == 0
        fresh = again(hub, spool)
        fresh.connect()
        wait_for(lambda: hub.api("status")["journal"]["accepted"] == 11, 10, "the old spool is sent")
        fresh.close()
        assert hub.api("status")["foreign_steps"] == 0
    assert_each_once_in_order(run, {"old.0": 10, "right.0": 1})


def client_of(token: str) -> Any:
    return lambda hub, spool: client(hub, spool, token=token)


# ---- credentials


def test_only_hashes_are_stored_for_the_owner_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    token = AccessFile(RunFolder(run)).add("anna", "operator")
    file = run / "access.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.partition(".")[2] not in file.read_text() and len(token.partition(".")[2]) >= 43  # 256 bits in base64
    for wrong, problem in (
        (("anna", "operator"), "already"),
        (("token", "viewer"), "not 'token'|other than 'token'"),
        (("b", "king"), "no role"),
    ):
        with pytest.raises(ConfigError, match=problem):
            AccessFile(RunFolder(run)).add(*wrong)  # pyright: ignore
    with pytest.raises(ConfigError, match="there are: 'anna'"):
        AccessFile(RunFolder(run)).revoke("otto")


def test_a_revoked_actor_is_disconnected_within_two_seconds_and_stays_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    known = AccessFile(RunFolder(run))
    token = known.add("left", "actor")
    with HubProcess(run) as hub:
        actor = client(hub, tmp_path / "spool", token=token)
        actor.connect()
        known.revoke("left")
        began = time.monotonic()
        wait_for(lambda: not actor.status.connected, 3, "it is disconnected")
        assert time.monotonic() - began < 2.5
        actor.send([step(0)])
        wait_for(lambda: actor.status.refused, 5, "the hub refuses it")
        assert "revoked" in actor.status.problem and hub.api("status")["journal"]["accepted"] == 0
        assert actor.close(0.2) == 1


def test_a_credential_ends_after_its_hours(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    token = AccessFile(RunFolder(run)).add("guest", "viewer", hours=1.0 / 3600)
    with HubProcess(run) as hub:
        if ask(hub, "/api/status", Authorization=bearer(token))[0] == 200:
            wait_for(lambda: ask(hub, "/api/status", Authorization=bearer(token))[0] == 401, 4, "it is over")
        assert ask(hub, "/api/status", Authorization=bearer(token))[0] == 401


def test_the_token_of_the_run_can_be_replaced(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with HubProcess(run) as hub:
        old = hub.token
        AccessFile(RunFolder(run)).revoke("token")
        assert hub.token != old
        wait_for(lambda: ask(hub, "/api/status", Authorization=bearer(old))[0] == 401, 3, "the old one opens nothing")
        assert hub.api("status")["actors"] == 0  # with the new one


def test_a_damaged_file_of_credentials_changes_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    token = AccessFile(RunFolder(run)).add("anna", "viewer")
    with HubProcess(run) as hub:
        assert ask(hub, "/api/status", Authorization=bearer(token))[0] == 200
        (run / "access.json").write_text('{"credentials": [{"name"')
        time.sleep(0.7)
        assert ask(hub, "/api/status", Authorization=bearer(token))[0] == 200


# ---- sessions of pages


def log_in(hub: HubProcess, token: str) -> dict[str, str]:
    """The headers of a page's session: its cookie, and the key that the page keeps."""
    status, _, headers = ask(hub, f"/?token={token}")
    assert status == 303 and headers["location"].startswith("/#page="), status
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]
    return {"Cookie": headers["set-cookie"].partition(";")[0], "X-Tandem-Page": headers["location"].partition("=")[2]}


def test_a_session_has_the_role_of_its_token_and_its_port_in_its_name(hub: HubProcess, tokens: dict[Role, str]) -> None:
    session = log_in(hub, tokens["viewer"])
    name, _, value = session["Cookie"].partition("=")
    kept = (hub.run / "sessions.json").read_text()
    assert name == f"tandem_{hub.port}" and value not in kept and session["X-Tandem-Page"] not in kept
    assert stat.S_IMODE((hub.run / "sessions.json").stat().st_mode) == 0o600
    assert json.loads(ask(hub, "/api/me", **session)[1])["role"] == "viewer"
    from_here = {"Origin": f"http://{hub.address}"}
    for body, status in (({"command": "resume"}, 403), ({"command": "stop", "detail": {"stay": True}}, 200)):
        assert ask(hub, "/api/command", method="POST", body=body, **session, **from_here)[0] == status
    assert ask(hub, "/api/command", method="POST", body={"command": "stop", "detail": {"stay": True}}, **session)[0] == 401  # no Origin


def test_a_cookie_opens_no_link_and_an_actors_token_no_page(hub: HubProcess, tokens: dict[Role, str]) -> None:
    session = log_in(hub, hub.token)
    with (
        pytest.raises(InvalidStatus, match="401"),
        connect(f"ws://{hub.address}/link", additional_headers=session | {"Origin": f"http://{hub.address}"}, proxy=None),
    ):
        pass
    assert ask(hub, f"/?token={tokens['actor']}")[0] == 403


def test_a_cookie_opens_nothing_at_another_port_after_logout_or_after_its_time(tmp_path: Path) -> None:
    """Defect 9: it was sent to other ports, opened them, and was valid for 30 days."""
    run = make_run(tmp_path / "run")
    with HubProcess(run, session_hours=1.5 / 3600) as hub, HubProcess(make_run(tmp_path / "other")) as other:
        session, second = log_in(hub, hub.token), log_in(hub, hub.token)
        value = session["Cookie"].partition("=")[2]
        assert ask(hub, "/api/actors", **session)[0] == 200
        for shown in (session["Cookie"], f"tandem_{other.port}={value}"):
            assert ask(other, "/api/actors", **session | {"Cookie": shown})[0] == 401
        assert ask(hub, "/logout", **session)[0] == 404  # a link of another page logs nobody out
        assert ask(hub, "/logout", method="POST", **session, Origin=f"http://{hub.address}")[0] == 303
        assert ask(hub, "/api/actors", **session)[0] == 401
        wait_for(lambda: ask(hub, "/api/actors", **second)[0] == 401, 4, "the other session ends by itself")


def test_sessions_survive_a_restart_of_the_hub_and_end_with_their_credential(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    known = AccessFile(RunFolder(run))
    anna, otto = known.add("anna", "operator"), known.add("otto", "operator")
    with HubProcess(run) as hub:
        hers, his = log_in(hub, anna), log_in(hub, otto)
        hub.kill()
        known.revoke("otto")
        hub.start()
        assert ask(hub, "/api/actors", **hers)[0] == 200 and ask(hub, "/api/actors", **his)[0] == 401
        known.revoke("anna")
        wait_for(lambda: ask(hub, "/api/actors", **hers)[0] == 401, 3, "it ends with its credential")


def test_a_cookie_without_the_key_of_its_page_opens_nothing_of_the_run(hub: HubProcess) -> None:
    """Defect 9, what was left of it: browsers send the cookie to every port of a host, the key to none but the hub's."""
    session, second = log_in(hub, hub.token), log_in(hub, hub.token)
    from_here = {"Origin": f"http://{hub.address}"}
    stolen = {"Cookie": session["Cookie"]} | from_here
    for wrong in (stolen, stolen | {"X-Tandem-Page": ""}, stolen | {"X-Tandem-Page": second["X-Tandem-Page"]}):
        assert [ask(hub, path, **wrong)[0] for path in ("/api/me", "/api/actors", "/page/files", "/login")] == [401] * 4
        assert ask(hub, "/api/command", method="POST", body={"command": "resume"}, **wrong)[0] == 401
        assert ask(hub, "/logout", method="POST", **wrong)[0] == 401
        for address in (f"ws://{hub.address}/page/socket", f"ws://{hub.address}/page/socket?page={second['X-Tandem-Page']}"):
            with pytest.raises(InvalidStatus, match="401"), connect(address, additional_headers=wrong, proxy=None):
                pass
    assert ask(hub, "/api/actors", **{"X-Tandem-Page": session["X-Tandem-Page"]})[0] == 401  # nor the key without the cookie
    assert ask(hub, "/api/actors", **session)[0] == 200


# ---- names of the server


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.7", "", None])
def test_a_request_for_another_host_is_not_answered(hub: HubProcess, host: str | None) -> None:
    """DNS rebinding: a site points its own name to this machine."""
    line = "" if host is None else f"Host: {host}\r\n"
    with socket.create_connection(("127.0.0.1", hub.port), 5) as connection:
        connection.sendall(f"GET /api/status HTTP/1.1\r\n{line}Authorization: {bearer(hub.token)}\r\n\r\n".encode())
        assert re.match(rb"HTTP/1.1 4(21|00) ", connection.recv(100))
    if host:
        with pytest.raises(InvalidStatus, match="421"), connect(
            f"ws://{host}/page/socket", additional_headers=log_in(hub, hub.token), proxy=None,
            sock=socket.create_connection(("127.0.0.1", hub.port), 5),
        ):  # fmt: skip
            pass


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9", "LOCALHOST:80", "[::1]:80", "lab.example"])
def test_names_of_this_machine_and_given_names_are_answered(tmp_path: Path, host: str) -> None:
    with HubProcess(make_run(tmp_path / "run"), host_names=["lab.example"]) as hub:
        assert ask(hub, "/api/status", Authorization=bearer(hub.token), Host=host)[0] == 200


def test_off_the_loopback_without_tls_is_refused_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        Hub(make_run(tmp_path / "a"), HubConfig(host="0.0.0.0"))
    said: list[str] = []
    hub = Hub(make_run(tmp_path / "b"), HubConfig(host="0.0.0.0", insecure=True), say=said.append)
    hub.close()
    assert any("INSECURE" in line for line in said)


# ---- the audit log and failed logins


def test_every_command_is_in_the_audit_log_with_who_when_and_from_where(hub: HubProcess, tokens: dict[Role, str]) -> None:
    command(hub, tokens["operator"], "label", {"success": True}, to="left")
    command(hub, tokens["viewer"], "label", {"success": True}, to="left")
    *_, allowed, refused = audit(hub)
    assert allowed["who"] == "the operator" and allowed["role"] == "operator" and allowed["allowed"] and allowed["to"] == "left"
    assert refused["who"] == "the viewer" and refused["what"] == "label" and not refused["allowed"]
    assert allowed["address"].startswith("127.0.0.1:") and abs(allowed["time"] - time.time()) < 60 and allowed["via"] == "api"
    assert stat.S_IMODE((hub.run / "audit.jsonl").stat().st_mode) == 0o600


def test_failed_logins_are_counted_logged_and_slowed_and_the_right_token_is_not(tmp_path: Path) -> None:
    with HubProcess(make_run(tmp_path / "run")) as hub:
        assert {ask(hub, f"/?token=guess{number}")[0] for number in range(40)} == {401}
        slowed = threading.Thread(target=lambda: [ask(hub, "/api/status", Authorization="Bearer guess") for _ in range(2)])
        began = time.monotonic()
        slowed.start()
        assert hub.api("status")["failed_logins"] >= 40 and time.monotonic() - began < 0.5  # the right one at once
        slowed.join()
        assert time.monotonic() - began > 0.9
        assert hub.api("status")["failed_logins_from"] == "127.0.0.1"
        lines = [row for row in audit(hub) if "wrong token" in row["what"]]
        assert 5 <= len(lines) <= 15, "bounded, whoever tries"
        assert not any("guess" in json.dumps(row) for row in lines), "what was tried may be a typing mistake in a real one"


def test_the_audit_log_is_bounded(tmp_path: Path) -> None:
    log = Audit(tmp_path / "audit.jsonl")
    (tmp_path / "audit.jsonl").write_bytes(b"x" * (MAX_BYTES + 1))
    log.failed_login("10.0.0.1:5", "a try")
    assert (tmp_path / "audit.1.jsonl").stat().st_size > MAX_BYTES
    for _ in range(5000):
        log.failed_login("10.0.0.1:5", "a try")
    assert len(list(read_rows(tmp_path / "audit.jsonl"))) < 20
    log.failed_login("10.0.0.2:5", "another")  # its own address has its own lines
    assert list(read_rows(tmp_path / "audit.jsonl"))[-1]["left_out_before"] > 4000


# ---- lock-outs


def test_idle_connections_do_not_keep_a_newcomer_out(tmp_path: Path) -> None:
    """Defect 10: 40 idle sockets without a token made 47 of 48 new connections fail."""
    with HubProcess(make_run(tmp_path / "run")) as hub:
        idle = [socket.create_connection(("127.0.0.1", hub.port), 5) for _ in range(200)]
        try:
            assert [hub.api("status")["actors"] for _ in range(48)] == [0] * 48
            assert sum(still_open(connection) for connection in idle) <= 32
        finally:
            for connection in idle:
                connection.close()


def test_half_finished_tls_handshakes_do_not_keep_a_newcomer_out(tmp_path: Path) -> None:
    """Defect 10: 1,100 raw connections, and nobody got in for 30 s."""
    cert, key = certificate(tmp_path)
    with HubProcess(make_run(tmp_path / "run"), certificate=str(cert), key=str(key)) as hub:
        trusting, idle = ssl.create_default_context(cafile=str(cert)), []
        try:
            for _ in range(400):
                idle.append(socket.create_connection(("127.0.0.1", hub.port), 5))
                idle[-1].sendall(b"\x16\x03\x01")  # the first bytes of a handshake
            began = time.monotonic()
            actor = client(hub, tmp_path / "spool", ca=cert)
            actor.connect(10)
            asked = http.client.HTTPSConnection("127.0.0.1", hub.port, timeout=5, context=trusting)
            asked.request("GET", "/api/status", headers={"Authorization": bearer(hub.token)})
            assert asked.getresponse().status == 200 and time.monotonic() - began < 8
            asked.close()
            assert sum(still_open(connection) for connection in idle[:300]) == 0
            actor.close()
        finally:
            for connection in idle:
                connection.close()


def test_a_flood_of_new_connections_does_not_keep_an_actor_out(tmp_path: Path) -> None:
    """On one machine everyone has the same address: whoever shows a token within milliseconds gets in."""
    with HubProcess(make_run(tmp_path / "run")) as hub:
        end = threading.Event()

        def flood() -> None:
            held: list[socket.socket] = []
            while not end.is_set():
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection(("127.0.0.1", hub.port), 1))
                if len(held) > 300:
                    held.pop(0).close()
                time.sleep(0.001)
            for connection in held:
                connection.close()

        attacker = threading.Thread(target=flood)
        attacker.start()
        try:
            time.sleep(0.3)
            actor = client(hub, tmp_path / "spool")
            actor.connect(10)
            actor.send([step(seq) for seq in range(50)])
            wait_for(lambda: actor.status.unacknowledged == 0, 5, "its steps are stored")
            actor.close()
        finally:
            end.set()
            attacker.join()
