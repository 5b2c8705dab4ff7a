"""Checks an address: is it reachable, is it a hub, does it accept the token, how long is a round trip?

Each failure has its own name, because each has another remedy.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tandem.errors import ConfigError
from tandem.link.messages import PROTOCOL

Outcome = Literal["ok", "unknown_name", "refused", "unreachable", "silent", "not_a_hub", "untrusted", "wrong_token", "other_version"]
TIMEOUT_S = 3.0
DIAGNOSIS_TIMEOUT_S = 20.0
"""The hub may have to read a large run folder first."""


@dataclass(frozen=True)
class Probe:
    """The result of probing an address."""

    address: str
    outcome: Outcome
    detail: str = ""
    stage: str = ""
    """`connect` or `answer`: the stage at which it failed."""
    token_given: bool = True
    round_trip_ms: float | None = None
    clock_difference_s: float | None = None
    """Hub's wall clock minus this machine's."""
    diagnosis: dict[str, Any] = field(default_factory=dict)
    """The hub's reply to `/api/findings`."""


def parse_address(text: str, default_port: int) -> tuple[str, int, bool]:
    """Host, port and whether TLS was asked for."""
    scheme, _, rest = text.rpartition("://")
    rest = rest.strip("/").removesuffix("/link")
    host, _, port = rest.rpartition(":") if rest.count(":") == 1 or rest.startswith("[") else (rest, "", "")
    if scheme not in ("", "ws", "wss", "http", "https") or not host or (port and not port.isdigit()):
        raise ConfigError(f"'{text}' is neither a run folder nor an address; give RUN, or HOST:PORT of a hub")
    return host.strip("[]"), int(port) if port else default_port, scheme in ("wss", "https")


def probe(host: str, port: int, *, token: str | None, tls: bool = False, ca: Path | None = None, lang: str = "en") -> Probe:
    """Connect, ask for the status, measure the round trip, and ask for the hub's diagnosis."""
    address = f"{host}:{port}"

    def failed(outcome: Outcome, problem: object, stage: str) -> Probe:
        return Probe(address, outcome, str(problem), stage, token_given=token is not None)

    def ask(path: str, timeout: float = TIMEOUT_S) -> tuple[int, bytes, float]:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        if tls or ca is not None:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        try:
            connection.connect()
            began = time.monotonic()
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read(2**24), time.monotonic() - began
        finally:
            connection.close()

    stage = "connect"
    try:
        socket.create_connection((host, port), TIMEOUT_S).close()
        stage = "answer"
        status, body, seconds = ask("/api/status")
        if status == 401:
            return failed("wrong_token" if _is_our_refusal(body) else "not_a_hub", f"HTTP {status}", stage)
        reply = json.loads(body)
        if status != 200 or not isinstance(reply, dict) or "spec_hash" not in reply:
            return failed("not_a_hub", f"HTTP {status}", stage)
        difference = reply["time"] - (time.time() - seconds / 2)
        seconds = min(seconds, *(ask("/api/clocks")[2] for _ in range(2)))
        status, body, _ = ask(f"/api/findings?lang={lang}", DIAGNOSIS_TIMEOUT_S)
        diagnosis = json.loads(body) if status == 200 else {}
        if diagnosis.get("protocol") != PROTOCOL:
            return failed("other_version", f"protocol {diagnosis.get('protocol', 'unknown')}, here {PROTOCOL}", stage)
        return Probe(address, "ok", round_trip_ms=1e3 * seconds, clock_difference_s=difference, diagnosis=diagnosis)
    except socket.gaierror as problem:
        return failed("unknown_name", problem.strerror or problem, stage)
    except ConnectionRefusedError as problem:
        return failed("refused", problem.strerror or problem, stage)
    except TimeoutError as problem:
        return failed("silent", problem, stage)
    except ssl.SSLCertVerificationError as problem:
        return failed("untrusted", problem.verify_message, stage)
    except (ssl.SSLError, http.client.HTTPException, ValueError, ConnectionError) as problem:
        return failed("not_a_hub", f"{type(problem).__name__}: {problem}", stage)
    except OSError as problem:
        return failed("unreachable", problem.strerror or problem, stage)


def _is_our_refusal(body: bytes) -> bool:
    try:
        return json.loads(body).get("error") == "wrong_token"
    except (ValueError, AttributeError):
        return False
