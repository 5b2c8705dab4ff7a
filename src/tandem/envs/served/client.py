"""Environments that `server.py` serves, as a `TaskEnv`: in a process that we start in another Python, or on another machine.

A row is a session of its own (`RemoteEnv`). Calls have numbers and deadlines; an answer that comes after its deadline is dropped by its
number and never becomes a transition. When the connection breaks, the client comes back and sends the same call again: the server
answers from memory what it has executed already. If the server has lost the episode, the row is cut off (`Step.lost`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import math
import os
import platform
import socket
import ssl
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from PIL import Image
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Opcode
from websockets.uri import parse_uri

from tandem.codec import CodecError, pack, unpack
from tandem.envs.camera_bytes import RECEIVED
from tandem.envs.deadline import seconds_left
from tandem.envs.foreign import GymnasiumEnv, taken_by
from tandem.envs.served.server import PROTOCOL, prepare_socket
from tandem.envs.task_env import HaltPlan, HaltSession
from tandem.errors import (
    ConfigError,
    EnvironmentFailed,
    EnvironmentTaken,
    LimitViolated,
    RenderingUnavailable,
    ServedError,
    TandemError,
)
from tandem.layouts import ActionLayout
from tandem.types import Observation, Spec, Step

MAX_ANSWER_BYTES = 64 * 2**20
"""Larger answers end the connection."""
_RETRY_S = 0.05
TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, CA_VARIABLE = "TANDEM_ENV_TOKEN_FILE", "TANDEM_TOKEN", "TANDEM_ENV_CA"


@dataclass(frozen=True)
class Deadlines:
    """Seconds that a call may take. The environment variable TANDEM_ENV_STEP_S sets `step`, and so on."""

    start: float = 300.0
    """Starting a process in another Python until its environment is made; a large simulator takes minutes."""
    connect: float = 10.0
    reset: float = 120.0
    step: float = 30.0
    render: float = 30.0
    halt: float = 2.0
    close: float = 3.0

    @classmethod
    def from_environment(cls) -> Deadlines:
        typed = {field.name: os.environ.get(_variable(field.name)) for field in dataclasses.fields(cls)}
        try:
            chosen = {name: float(text) for name, text in typed.items() if text}
        except ValueError as problem:
            raise ConfigError(f"a variable TANDEM_ENV_..._S must be a number of seconds: {problem}") from None
        if not all(math.isfinite(seconds) and seconds > 0 for seconds in chosen.values()):
            raise ConfigError(f"the variables TANDEM_ENV_..._S must be positive numbers of seconds, got {chosen}")
        return cls(**chosen)

    def of(self, call: str) -> float:
        return getattr(self, call)


def _variable(call: str) -> str:
    return f"TANDEM_ENV_{call.upper()}_S"


@dataclass(frozen=True)
class Address:
    """Where an environment is served, and what lets us in."""

    uri: str
    token: str
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, uri: str) -> Address:
        """`ws://host:port` or `wss://host:port`, with the token and the CA file that the environment variables name."""
        parts = urlsplit(uri)
        if parts.scheme not in ("ws", "wss") or not parts.hostname or parts.port is None or parts.path.strip("/"):
            raise ConfigError(f"'{uri}' is not the address of a served environment: ws://HOST:PORT, or wss://HOST:PORT for TLS")
        return cls(uri, _token(uri), _trust(uri))


def _trust(uri: str) -> ssl.SSLContext | None:
    """For `wss`: trust the certificate that the environment variable names, or those of the system."""
    if urlsplit(uri).scheme != "wss":
        return None
    ca = os.environ.get(CA_VARIABLE)
    if ca and not Path(ca).exists():
        raise ConfigError(f"{CA_VARIABLE} names the certificate {ca}, which is not there")
    return ssl.create_default_context(cafile=ca or None)


def _token(uri: str) -> str:
    file = os.environ.get(TOKEN_FILE_VARIABLE)
    try:
        token = Path(file).read_text().strip() if file else os.environ.get(TOKEN_VARIABLE, "")
    except OSError as problem:
        raise ConfigError(f"{TOKEN_FILE_VARIABLE} names {file}, which cannot be read: {problem.strerror}") from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"no token for {uri}: set {TOKEN_FILE_VARIABLE} to a file with the token that the server was started with, or {TOKEN_VARIABLE} "
            f"to the token itself"
        )
    return token


class Closed(Exception):
    """The connection is closed."""


class Connection:
    """A WebSocket on a blocking socket, used by one thread at a time."""

    def __init__(self, address: Address, until: float) -> None:
        parts = urlsplit(address.uri)
        self._sock = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=seconds_left(until))
        try:
            prepare_socket(self._sock)
            if address.tls is not None:
                self._sock = address.tls.wrap_socket(self._sock, server_hostname=parts.hostname)
            weakref.finalize(self, self._sock.close)  # an environment that nobody closes
            self._protocol = ClientProtocol(parse_uri(address.uri), max_size=MAX_ANSWER_BYTES)
            self._events: list[Any] = []
            request = self._protocol.connect()
            request.headers["Authorization"] = f"Bearer {address.token}"
            self._protocol.send_request(request)
            self._flush()
            self._next_event(until)
            if self._protocol.handshake_exc is not None:
                raise self._protocol.handshake_exc
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        self._protocol.send_binary(data)
        self._flush()

    def receive(self, until: float) -> Any:
        """The next message; TimeoutError when there is none by then."""
        parts = b""
        while True:
            frame = self._next_event(until)
            if frame.opcode in (Opcode.BINARY, Opcode.CONT):
                parts = parts + frame.data if frame.opcode is Opcode.CONT else frame.data
                if frame.fin:
                    return unpack(bytes(parts))
            elif frame.opcode is Opcode.CLOSE:
                raise Closed

    def _next_event(self, until: float) -> Any:
        while not self._events:
            self._sock.settimeout(seconds_left(until))
            data = self._sock.recv(1 << 18)
            if not data:
                raise Closed
            self._protocol.receive_data(data)
            self._events += self._protocol.events_received()
            self._flush()
        return self._events.pop(0)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._sock.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.close()


@dataclass(frozen=True)
class _Call:
    name: str
    number: int
    data: bytes
    until: float


class Caller:
    """Numbered calls of one session, each with a deadline; comes back when the connection breaks.

    `begin` sends a call and `finish` waits for its answer, so that many callers can send before the first one waits.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        deadlines: Deadlines,
        session: str,
        role: str = "calls",
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._name, self._address, self._deadlines = name, address, deadlines
        self._session, self._role, self._alive = session, role, alive
        self._connection: Connection | None = None
        self._call: _Call | None = None
        self._number = self._seq = 0
        self.returned = 0
        """How often it came back after its connection broke."""
        self.welcome: dict[str, Any] = {}
        self._connect(time.monotonic() + deadlines.connect, f"within {deadlines.connect:g} s")

    def begin(self, name: str, **fields: Any) -> None:
        """Send a call; a connection that is broken is noticed by `finish`."""
        self._number += 1
        data = pack({"call": name, "number": self._number, "time": time.monotonic(), **fields})
        self._call = _Call(name, self._number, data, time.monotonic() + self._deadlines.of(name))
        if self._connection is not None:
            try:
                self._connection.send(data)
            except OSError:
                self._drop()

    def finish(self) -> dict[str, Any]:
        """The answer to the call that was begun."""
        call, self._call = self._call, None
        assert call is not None
        while True:
            try:
                if self._connection is None:
                    self._come_back(call)
                    continue
                answer = self._connection.receive(call.until)
            except TimeoutError:
                raise self._late(call) from None
            except (Closed, OSError):
                self._drop()
                continue
            except CodecError as problem:
                raise ServedError(f"environment '{self._name}': the answer to {call.name} cannot be read: {problem}") from None
            if self._answers(call, answer):
                return answer

    def call(self, name: str, **fields: Any) -> dict[str, Any]:
        self.begin(name, **fields)
        return self.finish()

    def _answers(self, call: _Call, answer: Any) -> bool:
        """Whether this is the answer to this call; that of a call before, which came too late, is dropped."""
        number, seq = (answer.get("answer"), answer.get("seq")) if isinstance(answer, dict) else (None, None)
        if type(number) is not int or type(seq) is not int or number > call.number:
            raise ServedError(f"environment '{self._name}': the server answered {call.name} with {answer!r:.100}, which is no answer to it")
        if number < call.number:
            return False
        if seq <= self._seq:
            raise ServedError(
                f"environment '{self._name}': the answer to {call.name} is number {seq} of the server, after {self._seq}: stale"
            )
        self._seq = seq
        return True

    def _late(self, call: _Call) -> ServedError:
        seconds = self._deadlines.of(call.name)
        return ServedError(
            f"environment '{self._name}': no answer to {call.name} (call {call.number}) within {seconds:g} s. Likely cause: it hangs, or "
            f"it is slower than that, or the network is. An answer that comes later is not used. {_variable(call.name)} sets the deadline."
        )

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _come_back(self, call: _Call) -> None:
        self._alive()
        self._connect(call.until, f"before the deadline of {call.name} (call {call.number}, {self._deadlines.of(call.name):g} s)")
        self.returned += 1
        assert self._connection is not None
        self._connection.send(call.data)

    def _connect(self, until: float, limit: str) -> None:
        latest: object = "no answer"
        while time.monotonic() < until:
            try:
                self._connection = Connection(self._address, until)
                self._greet(self._connection, until)
                return
            except _Busy as problem:
                latest = problem
            except (InvalidHandshake, ssl.SSLCertVerificationError, CodecError) as problem:
                raise self._refused(problem) from None
            except (Closed, OSError) as problem:
                latest = str(problem) or type(problem).__name__
            self._drop()
            self._alive()
            time.sleep(_RETRY_S)
        if isinstance(latest, _Busy):
            raise EnvironmentTaken(f"environment '{self._name}' is in use at {self._address.uri} ({latest})")
        raise ServedError(
            f"environment '{self._name}': no server at {self._address.uri} {limit} ({latest}). Is `tandem serve` (or server.py) running "
            f"there, is the address right, does a firewall stand between?"
        )

    def _greet(self, connection: Connection, until: float) -> None:
        connection.send(
            pack({"hello": PROTOCOL, "session": self._session, "role": self._role, "client": {"python": platform.python_version()}})
        )
        welcome = connection.receive(until)
        if not isinstance(welcome, dict) or not ("welcome" in welcome or "refused" in welcome):
            raise ServedError(f"{self._address.uri} answered with {welcome!r:.100}: it is no server of environments")
        if welcome.get("refused") == "busy":
            raise _Busy(str(welcome.get("message")))
        if "refused" in welcome:
            raise ServedError(f"the server at {self._address.uri} refuses us: {welcome.get('message')}")
        if not welcome["known"]:
            self._seq = 0
        self.welcome = welcome

    def _refused(self, problem: Exception) -> ServedError:
        uri = self._address.uri
        if isinstance(problem, InvalidStatus) and problem.response.status_code == 401:
            return ServedError(
                f"the server at {uri} does not accept this token. Give the one that it was started with, by {TOKEN_FILE_VARIABLE} or "
                f"{TOKEN_VARIABLE}."
            )
        if isinstance(problem, ssl.SSLCertVerificationError):
            why = f"the certificate of {uri} cannot be trusted: {problem.verify_message}"
            return ServedError(f"{why}. Give the server's certificate with {CA_VARIABLE}=FILE.")
        return ServedError(f"{uri} is no server of environments: {problem}")

    def close(self) -> None:
        self._drop()


class Halting:
    """Halts a session over a connection of its own: of the process that steps it, or of another one (`acting/watchdog_process.py`)."""

    def __init__(self, session: HaltSession, deadlines: Deadlines | None = None, alive: Callable[[], None] = lambda: None) -> None:
        allowed = deadlines or Deadlines.from_environment()
        address = Address(session.uri, session.token, _trust(session.uri))
        self._name, self._lock = session.name, threading.Lock()
        # connected now: when it is needed there is no time to lose
        self._caller = Caller(session.name, address, dataclasses.replace(allowed, connect=allowed.halt), session.session, "halt", alive)

    def halt(self) -> None:
        """From any thread; also while a step is running."""
        with self._lock:
            answer = self._caller.call("halt")
        if "error" in answer:
            raise _environment_error(self._name, "halt()", answer["error"])

    def close(self) -> None:
        self._caller.close()


class _Busy(Exception):
    """The server serves as many clients as it can."""


class Process(Protocol):
    """The process behind a server that we started ourselves."""

    def check(self) -> None:
        """The connection is broken: raises `ServedError` if the process has ended."""
        ...

    def stop(self) -> None: ...


class RemoteEnv(gymnasium.Env):
    """One served environment as a plain Gymnasium environment, with everything that the real one declares.

    `send_reset` and `send_step` send a call without waiting for it; the `reset` or `step` that follows takes its answer.
    """

    def __init__(self, name: str, address: Address, deadlines: Deadlines, process: Process | None = None) -> None:
        session = uuid.uuid4().hex
        self._name, self._process = name, process
        alive = process.check if process is not None else lambda: None
        self.caller = Caller(name, address, deadlines, session, "calls", alive)
        self.welcome = self.caller.welcome
        described = self.description = self.welcome["description"]
        self.observation_space, self.action_space = _space(described["observation"]), _space(described["action"])
        self.metadata, self.tandem = dict(described["metadata"]), described["tandem"]
        self.render_mode = "rgb_array" if described["renders"] else None
        self.spec = EnvSpec("Served-v0", max_episode_steps=described["max_episode_steps"])
        self._last: dict[str, Any] = {}
        self._decoded: dict[str, tuple[Any, np.ndarray]] = {}
        """The newest compressed picture of each entry, and its pixels."""
        self._sent = False
        self.lost = ""
        """Why the episode is gone; empty while it is not."""
        self.halt_session = HaltSession(name, address.uri, session, address.token) if described["halts"] else None
        self._halting = None if self.halt_session is None else Halting(self.halt_session, deadlines, alive)

    def send_reset(self, seed: int | None) -> None:
        self.caller.begin("reset", seed=seed)
        self._sent = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if not self._sent:
            self.caller.begin("reset", seed=seed, options=options)
        answer = self._answer("reset()")
        self.lost = ""
        return self._seen(answer), answer.get("info") or {}

    def send_step(self, action: np.ndarray) -> None:
        self.caller.begin("step", action=action)
        self._sent = True

    def step(self, action: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if not self._sent:
            self.caller.begin("step", action=action)
        answer = self._answer("step()")
        if "lost" in answer:
            self.lost = str(answer["lost"])
            return self._last, 0.0, False, True, {}
        return self._seen(answer), answer.get("reward"), answer.get("terminated"), answer.get("truncated"), answer.get("info") or {}

    def _answer(self, what: str) -> dict[str, Any]:
        self._sent = False
        answer = self.caller.finish()
        if "error" in answer:
            raise _environment_error(self._name, what, answer["error"])
        return answer

    def _seen(self, answer: dict[str, Any]) -> Any:
        entries = answer.get("observation")
        if not isinstance(entries, dict):
            raise ServedError(f"environment '{self._name}' handed out an observation of type {type(entries).__name__}")
        self._last = {name: self._image(name, value) if isinstance(value, dict) else value for name, value in entries.items()}
        return self._last if isinstance(self.observation_space, gymnasium.spaces.Dict) else self._last.get("state")

    def _image(self, entry: str, image: dict[str, Any]) -> np.ndarray:
        """Each picture is decoded once; a camera may be slower than the control, and send the same bytes again."""
        data, pixels = self._decoded.get(entry, (None, None))
        if pixels is not None and data == image.get("bytes"):
            return pixels
        spaces = self.observation_space.spaces if isinstance(self.observation_space, gymnasium.spaces.Dict) else {}
        pixels = decode_image(image, spaces[entry].shape if entry in spaces else None, f"environment '{self._name}', entry '{entry}'")
        self._decoded[entry] = image["bytes"], pixels
        if image["codec"] == "jpeg":
            RECEIVED.came_as(pixels, image["bytes"])
        return pixels

    def halt(self) -> None:
        """Stop all motion now, from any thread, also while a step is running: over a connection of its own."""
        if self._halting is not None:
            self._halting.halt()

    def render(self) -> Any:
        self.caller.begin("render")
        picture = self._answer("render()").get("picture")
        if isinstance(picture, dict):
            return decode_image(picture, None, f"the picture of '{self._name}'")
        if picture is None:
            raise RenderingUnavailable(f"environment '{self._name}' draws no picture: its render() gave nothing to show")
        return picture

    def close(self) -> None:
        with contextlib.suppress(ServedError, EnvironmentFailed):
            self.caller.call("close")
        self.caller.close()
        if self._halting is not None:
            self._halting.close()
        if self._process is not None:
            self._process.stop()


def _environment_error(name: str, what: str, error: dict[str, Any]) -> TandemError:
    if error.get("type") == LimitViolated.__name__:  # its own, or one of the same name where Tandem is not installed
        return LimitViolated(f"environment '{name}': {error.get('message')}")
    return EnvironmentFailed(
        f"environment '{name}' failed in {what}: {error.get('type')}: {error.get('message')}. Its traceback ends with:\n"
        f"{error.get('traceback')}"
    )


def _space(described: dict[str, Any]) -> gymnasium.Space:
    """A space from its description; a kind that Tandem does not know becomes one that `spec_of` refuses with its own words."""
    if described["kind"] == "Dict":
        return gymnasium.spaces.Dict({name: _space(part) for name, part in described["entries"].items()})
    if described["kind"] != "Box":
        return _Unknown(described["text"])
    shape, dtype = tuple(described["shape"]), np.dtype(described["dtype"]).type
    if "low" in described:
        return gymnasium.spaces.Box(np.asarray(described["low"], dtype), np.asarray(described["high"], dtype), shape, dtype)
    low, high = (0, 255) if dtype is np.uint8 else (-np.inf, np.inf)
    return gymnasium.spaces.Box(low, high, shape, dtype)


class _Unknown(gymnasium.Space):
    """A space of another kind, known by its text alone."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def __repr__(self) -> str:
        return self._text


def decode_image(image: dict[str, Any], shape: tuple[int, ...] | None, what: str) -> np.ndarray:
    """The picture in {codec, bytes}; its size is compared with what is declared before it is unpacked."""
    codec, data = image.get("codec"), image.get("bytes")
    if codec not in ("jpeg", "png") or not isinstance(data, bytes):
        raise ServedError(f"{what}: an image of the codec {codec!r:.40}; there are jpeg and png")
    try:
        with Image.open(io.BytesIO(data), formats=[codec.upper()]) as picture:
            if shape is not None and (picture.height, picture.width) != shape[:2]:
                raise ServedError(f"{what}: a picture of {picture.height} x {picture.width}, declared is {shape[0]} x {shape[1]}")
            grey = shape is not None and shape[2:] == (1,)
            pixels = np.asarray(picture.convert("L" if grey else "RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as problem:
        raise ServedError(f"{what}: a {codec} image that cannot be read: {problem}") from None
    return pixels[..., None] if grey else pixels


class ServedEnv(GymnasiumEnv):
    """N served environments as a `TaskEnv`, stepped in parallel: all calls are sent before the first answer is waited for."""

    def __init__(self, name: str, rows: Sequence[RemoteEnv]) -> None:
        super().__init__(name, rows)
        self.rows = list(rows)
        sessions = tuple(row.halt_session for row in rows if row.halt_session is not None)
        self.capabilities = dataclasses.replace(self.capabilities, halt_plan=HaltPlan(sessions=sessions) if sessions else None)
        described = rows[0].description.get("spec")
        if described is not None:  # a task of Tandem's own: its actions are in the agent's units already
            self.spec = dataclasses.replace(Spec.from_json(described), task=name)
            self._layout = ActionLayout.of(self.spec)
            self._space = gymnasium.spaces.Box(-1.0, 1.0, (self.spec.action_dim,), np.float32)

    def reset(self, rows: Sequence[int] | None = None, seeds: Sequence[int | None] | None = None) -> Observation:
        chosen = list(range(self.num_envs) if rows is None else rows)
        wanted = list(seeds) if seeds is not None else [None] * len(chosen)
        for row, seed in zip(chosen, wanted, strict=True):
            self.rows[row].send_reset(None if seed is None else int(seed))
        return super().reset(chosen, wanted)

    def step(self, action: np.ndarray) -> Step:
        asked = self._layout.checked(action, (self.num_envs,), self.spec.task)
        moving = np.flatnonzero(~self._standing).tolist()
        for row in moving:
            self.rows[row].send_step(taken_by(self._space, self._layout, asked[row]))
        step = super().step(action)
        lost = np.array([row in moving and bool(self.rows[row].lost) for row in range(self.num_envs)])
        return dataclasses.replace(step, truncated=step.truncated & ~lost, lost=lost) if lost.any() else step
