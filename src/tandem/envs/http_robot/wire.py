"""HTTP calls to a robot's server, each with a deadline, and what /getstate answers.

Isaac's server closes the connection after every answer, so each call opens one. A call that fails is tried again until its deadline: a pose
is absolute and a question changes nothing, so that asking twice does no harm. A call that does harm when it is made twice is made `once`.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from tandem.envs.deadline import seconds_left
from tandem.errors import ConfigError, ServedError

MAX_BYTES = 4 * 2**20
"""Of an answer or a picture."""
RETRY_S = 0.02
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
    def of(cls, name: str, default_profile: str, scheme: str) -> Address:
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
        self.server = ""
        """What the server says that it is made of, such as `Werkzeug/3.1.3 Python/3.11.9`."""

    def post(self, path: str, body: Any = None, *, within: float, once: bool = False) -> bytes:
        """The body of the answer. `once`: not again when the connection fails."""
        until, latest = time.monotonic() + within, "no answer"
        data = b"" if body is None else json.dumps(body).encode()
        while time.monotonic() < until:
            try:
                return self._exchange(path, data, until)
            except TimeoutError:
                latest = f"no answer to /{path} within {within:g} s"
            except OSError as problem:
                latest = problem.strerror or str(problem) or type(problem).__name__
            if once:
                break
            self.retries += 1
            time.sleep(min(RETRY_S, max(0.0, until - time.monotonic())))
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
        made_of = next((line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"server:")), b"")
        self.server = "".join(letter for letter in made_of[:80].decode(errors="replace").strip() if letter.isprintable())
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
