"""The token check, limits for connections without a token, and TLS."""

import datetime
import ipaddress
import socket
import ssl
import stat
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from link_samples import SPEC, HubProcess, assert_each_once_in_order, client, make_run, snapshot, step
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tandem.errors import UntrustedCertificate
from tandem.link.trainer_end import TrainerEnd
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):
    with HubProcess(make_run(tmp_path_factory.mktemp("hub") / "run"), max_unknown_connections=8, timeout_s=1.0) as hub:
        yield hub


def test_the_token_is_made_for_the_run_and_its_owner_alone(hub: HubProcess) -> None:
    assert stat.S_IMODE((hub.run / "token").stat().st_mode) == 0o600
    assert len(hub.token) >= 40


@pytest.mark.parametrize("path", ["/api/status", "/api/actors", "/api/command", "/", "/nothing", "/openapi.json"])
@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer ", "Basic {token}", "{token}", "bearer {token}"])
def test_without_the_token_every_path_is_closed(hub: HubProcess, path: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.format(token=hub.token)}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"http://{hub.address}{path}", headers=headers), timeout=5)
    with caught.value as answer:
        assert answer.code == 401 and b"Authorization: Bearer TOKEN" in answer.read()


@pytest.mark.parametrize("path", ["link", "api/status", "other"])
def test_a_websocket_without_the_token_is_refused_before_it_is_opened(hub: HubProcess, path: str) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(f"ws://{hub.address}/{path}", proxy=None):
        pass
    assert caught.value.response.status_code == 401 and b"wrong_token" in (caught.value.response.body or b"")


def test_two_tokens_are_no_better_than_none(hub: HubProcess) -> None:
    with socket.create_connection(("127.0.0.1", hub.port), 5) as connection:
        bearer = f"Authorization: Bearer {hub.token}\r\n"
        connection.sendall(f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n{bearer}\r\n".encode())
        assert b" 401 " in connection.recv(100)


def still_open(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def test_connections_without_a_token_are_limited_in_number_and_time(hub: HubProcess, tmp_path: Path) -> None:
    """Silent connections: eight stay open, the others are closed at once, and all after a second."""
    actor = client(hub, tmp_path)
    actor.connect()
    unknown = [socket.create_connection(("127.0.0.1", hub.port), 5) for _ in range(100)]
    try:
        time.sleep(0.2)
        assert sum(still_open(connection) for connection in unknown) <= 8
        actor.send([step(number, actor.source) for number in range(50)])
        wait_for(lambda: actor.status.unacknowledged == 0, 5, "the actor who was there before")
        assert actor.status.reconnects == 0
        wait_for(lambda: not any(still_open(connection) for connection in unknown), 4, "the unknown connections to be closed")
    finally:
        for connection in unknown:
            connection.close()
    assert hub.api("status")["strangers_turned_away"] >= 100
    actor.close()


def test_a_connection_without_a_token_that_sends_too_much_is_closed(hub: HubProcess) -> None:
    with socket.create_connection(("127.0.0.1", hub.port), 5) as connection:
        connection.sendall(b"GET /api/status HTTP/1.1\r\n")
        sent = 0
        with pytest.raises(OSError):
            while sent < 50e6:
                sent += connection.send(b"X-Header: " + b"x" * 8000 + b"\r\n")
        assert sent < 20e6  # what the buffers of the system hold


def test_a_large_body_is_not_read(hub: HubProcess) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        hub.api("command", {"command": "stop", "detail": {"x": "y" * 20_000}})
    with caught.value as answer:
        assert answer.code == 413


@pytest.mark.parametrize("body", [{}, [], {"command": "jump"}, {"command": "stop", "to": 3}, {"command": "stop", "more": 1}, "stop", None])
def test_an_unknown_command_is_named(hub: HubProcess, body: object) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        hub.api("command", body if body is not None else "")
    with caught.value as answer:
        assert answer.code == 422 and b"not a command" in answer.read()


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed one for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return folder / "cert.pem", folder / "key.pem"


def test_over_tls_everything_works_and_only_with_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    run = make_run(tmp_path / "run")
    with HubProcess(run, certificate=str(cert), key=str(key)) as hub:
        actor, trainer = client(hub, tmp_path / "spool", ca=cert), TrainerEnd(run, SPEC)
        assert actor.uri.startswith("wss://")
        actor.connect()
        trainer.publish(snapshot(1, size=100_000))
        assert wait_for(actor.newest_policy).version == 1
        actor.send([step(number) for number in range(100)])
        assert actor.close() == 0
        trainer.close()

        connection = client(hub, tmp_path / "spool", address=f"wss://{hub.address}")  # trusts the system's authorities alone
        with pytest.raises(UntrustedCertificate, match=r"cannot be trusted.*--ca"):
            connection.connect(10)
        with pytest.raises(OSError):  # no word in the clear
            urllib.request.urlopen(f"http://{hub.address}/api/status", timeout=5)
        trusting = ssl.create_default_context(cafile=str(cert))
        asked = urllib.request.Request(f"https://{hub.address}/api/status", headers={"Authorization": f"Bearer {hub.token}"})
        with urllib.request.urlopen(asked, timeout=5, context=trusting) as answer:
            assert answer.status == 200
    assert_each_once_in_order(run, {"a": 100})


def test_the_hub_listens_on_the_loopback_by_default(hub: HubProcess) -> None:
    listening = [line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
    assert [address for address in listening if int(address.split(":")[1], 16) == hub.port] == [f"0100007F:{hub.port:04X}"]
