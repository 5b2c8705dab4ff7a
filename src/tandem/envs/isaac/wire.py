"""The two connections to the server: HTTP calls, each with a deadline, and pictures that it pushes over Socket.IO.

The server closes the connection after every answer, so each call opens one. A call that fails is tried again until its deadline: a pose is
absolute and a question changes nothing, so that asking twice does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from tandem.envs.deadline import seconds_left
from tandem.errors import ConfigError, ServedError, extras_named

MAX_BYTES = 4 * 2**20
"""Of an answer or a picture."""
_RETRY_S = 0.02
_DUMMY = (0.5, 0.0, 0.5)
"""The position that the server reports before its first update."""


@dataclass(frozen=True)
class Address:
    """Where the server listens, and by which profile it is understood."""

    host: str
    port: int
    profile: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/"

    @classmethod
    def of(cls, name: str, default_profile: str, scheme: str = "isaac") -> Address:
        """`isaac+http://HOST:PORT/` with maybe `?profile=NAME`."""
        parts = urlsplit(name.removeprefix(f"{scheme}+"))
        try:
            port = parts.port
        except ValueError:
            port = None
        key, _, profile = parts.query.partition("=")
        if parts.scheme != "http" or not parts.hostname or port is None or parts.path.strip("/") or (parts.query and key != "profile"):
            raise ConfigError(
                f"'{name}' is not the address of a robot: {scheme}+http://HOST:PORT/, with ?profile=NAME or ?profile=FILE.toml where the "
                f"profile is another than '{default_profile}'"
            )
        return cls(parts.hostname, port, profile or default_profile)


class Refused(ServedError):
    """The server answered, and its answer is an error: asking again would not help."""


class Calls:
    """POST requests to the server."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.retries = 0
        """Calls that were made again because a connection failed."""

    def post(self, path: str, body: Any = None, *, within: float) -> bytes:
        """The body of the answer."""
        until, latest = time.monotonic() + within, "no answer"
        data = b"" if body is None else json.dumps(body).encode()
        while time.monotonic() < until:
            try:
                return self._exchange(path, data, until)
            except TimeoutError:
                latest = f"no answer to /{path} within {within:g} s"
            except OSError as problem:
                latest = problem.strerror or str(problem) or type(problem).__name__
            self.retries += 1
            time.sleep(min(_RETRY_S, max(0.0, until - time.monotonic())))
        raise ServedError(
            f"the robot's server at {self._address.url} did not answer /{path} within {within:g} s ({latest}). Is it running, is the "
            f"address right, is its main loop busy?"
        )

    def ask(self, path: str, *, within: float) -> Any:
        """The JSON that a question is answered with."""
        answer = self.post(path, within=within)
        try:
            return json.loads(answer)
        except ValueError:
            raise Refused(f"the server at {self._address.url} answered /{path} with {answer[:60]!r}, which is not JSON") from None

    def _exchange(self, path: str, data: bytes, until: float) -> bytes:
        head = (
            f"POST /{path} HTTP/1.0\r\nHost: {self._address.host}:{self._address.port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        )
        with socket.create_connection((self._address.host, self._address.port), timeout=seconds_left(until)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(head.encode() + data)
            received = bytearray()
            while len(received) <= MAX_BYTES:
                connection.settimeout(seconds_left(until))
                part = connection.recv(65536)
                if not part:
                    break
                received += part
        return self._body(path, bytes(received))

    def _body(self, path: str, received: bytes) -> bytes:
        head, found, body = received.partition(b"\r\n\r\n")
        words = head.split(b"\r\n")[0].split()
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
        if not found or len(words) < 2 or (length is not None and len(body) < length):
            raise OSError("the connection was closed in the middle of an answer")
        if words[1] != b"200":
            said = body[:200].decode(errors="replace").replace("\n", " ")
            raise Refused(f"the server at {self._address.url} answered /{path} with {words[1].decode()}: {said}")
        return body


@dataclass(frozen=True)
class State:
    """An answer to /getstate."""

    position: np.ndarray
    quaternion: np.ndarray
    """x, y, z, w"""
    velocity: np.ndarray
    force: np.ndarray
    torque: np.ndarray
    gripper: float
    objects: Any
    raw: dict[str, Any]

    @classmethod
    def of(cls, answer: Any, url: str) -> State:
        try:
            pose, velocity, force, torque = (np.array(answer[name], float) for name in ("pose", "vel", "force", "torque"))
            gripper = float(answer["gripper_pos"])
            shapes = pose.shape, velocity.shape, force.shape, torque.shape
            finite = all(np.isfinite(part).all() for part in (pose, velocity, force, torque, gripper))
        except (KeyError, TypeError, ValueError) as problem:
            raise Refused(f"the server at {url} answered /getstate without numbers in it: {type(problem).__name__}: {problem}") from None
        if shapes != ((7,), (6,), (3,), (3,)) or not finite:
            raise Refused(
                f"the server at {url} answered /getstate with pose, vel, force, torque of shape {shapes}{'' if finite else ', not finite'};"
                f" expected 7, 6, 3 and 3 finite numbers"
            )
        return cls(pose[:3], pose[3:], velocity, force, torque, gripper, answer.get("object_states"), answer)

    @property
    def started(self) -> bool:
        """Not the values from before the first update."""
        return not np.allclose(self.position, _DUMMY)


@dataclass(frozen=True)
class Frame:
    number: int
    """Counts the pictures of this camera since the connection was made."""
    at: float
    """When it arrived, by the monotonic clock; the server sends no time."""
    jpeg: bytes


class Pictures:
    """The newest picture of each camera, received in a thread of its own; it comes back by itself when the connection breaks."""

    def __init__(self, url: str) -> None:
        with extras_named("pictures of a robot's server"):
            import socketio
        self._url, self._frames, self._problem = url, dict[str, Frame](), "not connected yet"
        self._changed, self._closed = threading.Condition(), threading.Event()
        self._client = socketio.AsyncClient(reconnection=False)
        self._client.on("image", self._receive)
        self._client.on("disconnect", self._disconnected)
        self.connections = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._stay()), name="pictures", daemon=True)
        self._thread.start()

    def newest(self, name: str) -> Frame | None:
        return self._frames.get(name)

    def names(self) -> list[str]:
        return sorted(self._frames)

    def wait(self, names: tuple[str, ...], since: float, within: float) -> dict[str, Frame]:
        """A picture of each of these cameras that arrived after `since`; fewer if they do not come in time."""

        def fresh() -> dict[str, Frame]:
            return {name: frame for name in names if (frame := self._frames.get(name)) is not None and frame.at > since}

        with self._changed:
            self._changed.wait_for(lambda: len(fresh()) == len(names), max(0.0, within))
            return fresh()

    @property
    def problem(self) -> str:
        """Why nothing arrives, as far as it is known."""
        return self._problem

    def _receive(self, data: Any) -> None:
        if not isinstance(data, bytes) or not 2 <= len(data) <= MAX_BYTES or len(data) <= 1 + data[0]:
            return
        name = data[1 : 1 + data[0]].decode(errors="replace")
        with self._changed:
            before = self._frames.get(name)
            if before is None and len(self._frames) >= 32:
                return
            self._frames[name] = Frame(1 if before is None else before.number + 1, time.monotonic(), data[1 + data[0] :])
            self._changed.notify_all()

    async def _stay(self) -> None:
        while not self._closed.is_set():
            self._broken = asyncio.Event()  # `client.wait` would sleep for a second after the connection broke
            try:
                await asyncio.wait_for(self._client.connect(self._url, transports=["websocket", "polling"], wait_timeout=2), 5)
                self.connections += 1
                self._problem = "connected, and no picture arrived"
                await self._until_closed(self._broken)
                self._problem = "the Socket.IO connection broke"
            except Exception as problem:  # aiohttp, engineio and socketio each have their own
                self._problem = f"no Socket.IO connection: {str(problem) or type(problem).__name__}"
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._client.disconnect(), 0.5)
            await asyncio.sleep(_RETRY_S)

    async def _disconnected(self, *_: object) -> None:
        self._broken.set()

    async def _until_closed(self, broken: asyncio.Event) -> None:
        while not (self._closed.is_set() or broken.is_set()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(broken.wait(), 0.1)

    def close(self) -> None:
        self._closed.set()
        self._thread.join(5)
