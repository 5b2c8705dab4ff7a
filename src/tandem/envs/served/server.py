"""Serve a Gymnasium environment to Tandem from any Python: this one file is all that the other side needs.

    python server.py module:Id --port 5599 --token-file token        # this file may be copied anywhere; it imports nothing of Tandem
    tandem serve ENV --port 5599 --token-file token                  # the same, where Tandem is installed

It needs Python >= 3.9, NumPy 1 or 2, msgpack, websockets >= 10, and Gymnasium >= 0.26 if the environment is registered there. In
`module:Id` the module is imported first; Id is then a registered id, or a class or function of the module that makes the environment.

    client                                            server
    Authorization: Bearer TOKEN            ──►        401, or the WebSocket opens
    {hello: 1, session, role}              ──►        {welcome: 1, known, versions, description, time}  or  {refused, message}
    {call: reset, number, time, seed}      ──►        {answer: number, seq, time, seconds, observation, info}
    {call: step, number, time, action}     ──►        {answer: number, seq, time, seconds, observation, reward, terminated, ...}
    {call: halt | render | close, ...}     ──►        {answer: number, ...}          or {answer: number, error} or {answer: number, lost}

* Messages are msgpack maps; arrays are the extension type 1: one byte n, then n bytes of msgpack [dtype, shape], then the values.
* `number` counts a session's calls. The newest answer is remembered: a client that lost its connection comes back with its session id
  and sends the same call again; it is answered from memory, or once it is done, and never executed twice.
* `lost` answers a step of an episode that is not there: the server was restarted, or motion was stopped while the client was away.
* Every environment runs in the main thread, as simulators and OpenGL require. `halt` is executed by the thread that receives it, also
  during a step. A client that is gone for longer than the grace time has its motion stopped, and so has one that is connected and
  silent in the middle of an episode, where the environment's clock is real (`metadata["silence_s"]`, 2 s, declares how long; 0: never).
* `time` is monotonic, in seconds, of the side that sends it.
* An image is an array (uint8), or bytes that the environment compressed itself (JPEG, PNG): those are passed on as {codec, bytes}.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and os.path.abspath(sys.path[0]) == os.path.dirname(os.path.abspath(__file__)):
    # This file's own folder: a module of the environment must not be found there by accident. With PYTHONSAFEPATH it is not there, and
    # the first place is one that a person has named.
    sys.path.pop(0)

import argparse
import contextlib
import hmac
import importlib
import json
import platform
import queue
import secrets
import signal
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

MISSING: list[str] = []
"""Packages that this Python lacks; nothing can be served before they are installed."""
try:
    import numpy as np
except ImportError:
    MISSING.append("numpy")
try:
    import msgpack
except ImportError:
    MISSING.append("msgpack")
try:
    from websockets.frames import Opcode

    try:
        from websockets.server import ServerProtocol
    except ImportError:  # its name before websockets 11
        from websockets.server import ServerConnection as ServerProtocol
except ImportError:
    MISSING.append("websockets")

PROTOCOL = 1
"""Version of the messages; both ends must have the same one."""
GRACE_S = 5.0
"""Seconds that a client may be gone before motion is stopped."""
SILENCE_S = 2.0
"""Seconds between two calls of an episode after which motion is stopped, of an environment whose clock is real; it may declare others."""
KEEP_S = 600.0
"""Seconds after which the session of a client that is gone is forgotten."""
MAX_SESSIONS = 8
"""Clients at once, each with an environment of its own; an environment whose clock is real serves one."""
MAX_CONNECTIONS = 64
MAX_CALL_BYTES = 2**20
"""Larger calls close the connection."""
MAX_INFO_BYTES = 2**16
"""Larger arrays in `info` are left out."""
HANDSHAKE_S = 10.0
ENDING_S = 3.0
"""Seconds that an environment has to close after the process that started it is gone."""
SEND_S = 10.0
ARRAY_CODE = 1
DTYPES = ("<f4", "<f8", "<i8", "<i4", "|i1", "|u1", "|b1")
"""What an array may hold, as NumPy writes it; anything else is converted."""
NO_EPISODE = "this server has no episode of this session: it was restarted, or forgot a client that was gone for too long"


# ---- environments


def make_environment(name: str, render: bool = False) -> Any:
    """The environment `module:Id` or `Id`: registered with Gymnasium, or made by a class or function of the module."""
    module_name, _, alone = name.rpartition(":")
    module = importlib.import_module(module_name) if module_name else None
    options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    gymnasium = _gymnasium()
    if gymnasium is not None and (module is None or _registered(gymnasium, alone)):
        return gymnasium.make(alone, disable_env_checker=True, **options)
    if module is None:
        raise ImportError(f"'{name}' is an id of Gymnasium's, and Gymnasium is not installed in {sys.executable}")
    maker = getattr(module, alone, None)
    if maker is None:
        raise LookupError(f"the module '{module_name}' neither registers the id '{alone}' with Gymnasium nor has a class of that name")
    return maker(**options)


def make_watched(name: str) -> Any:
    """The same for people who may want to look: it draws itself if it can, and is made without pictures if not."""
    try:
        return make_environment(name, render=True)
    except Exception:  # it does not take `render_mode`, or there are no graphics here; any other error comes again
        return make_environment(name)


def _gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium")
    except ModuleNotFoundError as problem:
        if problem.name != "gymnasium":
            raise
        return None


def _registered(gymnasium: Any, name: str) -> bool:
    known = getattr(gymnasium, "registry", None) or importlib.import_module("gymnasium.envs.registration").registry
    return name in known or any(key.rpartition("-v")[0] == name for key in known)


def find_attribute(env: Any, name: str) -> Any:
    """An attribute of an environment or of one that it wraps; None where nobody has it."""
    while env is not None:
        if hasattr(env, name):
            return getattr(env, name)
        env = getattr(env, "env", None)
    return None


def describe(env: Any) -> dict[str, Any]:
    """What an environment shows and takes, as plain data: everything that Tandem's `spec_of` asks for."""
    spec, metadata = getattr(env, "spec", None), plain(dict(getattr(env, "metadata", None) or {}))
    return {
        "observation": describe_space(env.observation_space),
        "action": describe_space(env.action_space),
        "metadata": metadata,
        "max_episode_steps": plain(getattr(spec, "max_episode_steps", None)),
        "tandem": plain(find_attribute(env, "tandem")),
        "renders": getattr(env, "render_mode", None) == "rgb_array",
        "halts": find_attribute(env, "halt") is not None,
    }


def describe_space(space: Any) -> dict[str, Any]:
    """A space of Gymnasium's (or of any package with the same names) as plain data."""
    kind = type(space).__name__
    described: dict[str, Any] = {"kind": kind, "text": str(space)[:300]}
    if kind == "Dict":
        described["entries"] = {str(key): describe_space(part) for key, part in space.spaces.items()}
    elif kind == "Box":
        dtype = np.dtype(space.dtype)
        described.update(shape=[int(n) for n in space.shape], dtype=dtype.name)
        if len(space.shape) == 1:  # the limits of an image are never asked for
            described.update(low=wire_array(space.low), high=wire_array(space.high))
    return described


# ---- what goes over the wire


_LEFT_OUT: Any = object()


def plain(value: Any, depth: int = 0) -> Any:
    """A copy of plain data: numbers, strings, lists, dicts and small arrays; anything else in it is left out (None at the top)."""
    made = _plain(value, depth)
    return None if made is _LEFT_OUT else made


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else _LEFT_OUT
    if isinstance(value, str):
        return value[:MAX_INFO_BYTES]
    if isinstance(value, np.ndarray):
        return wire_array(value) if value.dtype.kind in "biuf" and value.nbytes <= MAX_INFO_BYTES else _LEFT_OUT
    if depth < 5 and isinstance(value, Mapping):
        made = {str(key): _plain(part, depth + 1) for key, part in list(value.items())[:500]}
        return {key: part for key, part in made.items() if part is not _LEFT_OUT}
    if depth < 5 and isinstance(value, (list, tuple)):
        return [part for part in (_plain(item, depth + 1) for item in value[:1000]) if part is not _LEFT_OUT]
    return _LEFT_OUT


def wire_array(value: Any) -> Any:
    """An array of a dtype that the protocol has."""
    array = np.asarray(value)
    if array.dtype.str in DTYPES:
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an array of {array.dtype} cannot be sent; arrays hold numbers")
    return array.astype("<f8" if array.dtype.kind == "f" else "<i8")


def wire_observation(observation: Any) -> dict[str, Any]:
    """Named arrays; an environment without names has one entry, `state`. Bytes are a compressed image."""
    entries = observation if isinstance(observation, Mapping) else {"state": observation}
    return {str(name): wire_image(value) if isinstance(value, (bytes, bytearray)) else wire_array(value) for name, value in entries.items()}


def wire_image(data: Any) -> dict[str, Any]:
    data = bytes(data)
    for codec, first in (("jpeg", b"\xff\xd8\xff"), ("png", b"\x89PNG")):
        if data.startswith(first):
            return {"codec": codec, "bytes": data}
    raise TypeError(f"bytes in an observation are a compressed image, JPEG or PNG; these begin with {data[:8]!r}")


def pack(record: Any) -> bytes:
    packed: Any = msgpack.packb(record, default=_encode, use_bin_type=True)
    return packed


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        header: Any = msgpack.packb([value.dtype.str, list(value.shape)])
        return msgpack.ExtType(ARRAY_CODE, bytes([len(header)]) + header + value.tobytes())
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=_decode, raw=False, strict_map_key=True, max_array_len=10_000, max_map_len=1000)


def _decode(code: int, payload: bytes) -> Any:
    if code != ARRAY_CODE or not payload:
        raise ValueError(f"unknown extension type {code}")
    start = 1 + payload[0]
    name, shape = msgpack.unpackb(payload[1:start])
    if name not in DTYPES or len(shape) > 8:
        raise ValueError(f"an array of {name!r} with {len(shape)} axes is not allowed")
    return np.frombuffer(payload, name, -1, start).reshape(shape)


def failure(problem: BaseException, what: str) -> dict[str, Any]:
    """An exception as plain data: its type, its message, and the end of its traceback."""
    lines = "".join(traceback.format_exception(type(problem), problem, problem.__traceback__)).strip().splitlines()
    missing = getattr(problem, "name", None) if isinstance(problem, ModuleNotFoundError) else None
    return {
        "what": what,
        "type": type(problem).__name__,
        "message": str(problem)[:4000],
        "traceback": "\n".join(lines[-8:])[-4000:],
        "module": missing if isinstance(missing, str) else None,
    }


# ---- connections


class Closed(Exception):
    """The other side closed the connection, or did not keep to the protocol."""


class Connection:
    """A WebSocket on a blocking socket. One thread receives; any thread sends."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._protocol = ServerProtocol(max_size=MAX_CALL_BYTES)
        self._lock = threading.Lock()
        self._events: list[Any] = []
        self._parts = b""

    def open(self, accepted: Callable[[Any], bool]) -> None:
        """The handshake; `accepted` sees the request before anything else happens."""
        self._sock.settimeout(HANDSHAKE_S)
        request = self._next_event()
        with self._lock:
            if accepted(request):
                response = self._protocol.accept(request)
            else:
                response = self._protocol.reject(401, "The token is missing or wrong.\n")
            self._protocol.send_response(response)
            self._flush()
        if response.status_code != 101:
            raise Closed
        self._sock.settimeout(None)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(SEND_S), 0))

    def receive(self) -> bytes:
        """The next message, whenever it comes."""
        while True:
            frame = self._next_event()
            if frame.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._parts = frame.data if frame.opcode is not Opcode.CONT else self._parts + frame.data
                if len(self._parts) > MAX_CALL_BYTES:
                    raise Closed
                if frame.fin:
                    return bytes(self._parts)
            elif frame.opcode is Opcode.CLOSE:
                raise Closed

    def _next_event(self) -> Any:
        while not self._events:
            data = self._sock.recv(65536)
            with self._lock:
                if data:
                    self._protocol.receive_data(data)
                self._events += self._protocol.events_received()
                self._flush()
            if not data and not self._events:
                raise Closed
        return self._events.pop(0)

    def send(self, data: bytes) -> None:
        with self._lock:
            self._protocol.send_binary(data)
            self._flush()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._sock.sendall(data)

    def close(self) -> None:
        for end in (lambda: self._sock.shutdown(socket.SHUT_RDWR), self._sock.close):
            with contextlib.suppress(OSError):
                end()


def prepare_socket(sock: Any) -> None:
    """Small messages at once, and a peer whose machine is gone is noticed within about the grace time."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 5000)):
        if hasattr(socket, name):  # Linux has them all
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# ---- sessions


class Session:
    """One client: its environment, its newest call and the answer to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.env: Any = None
        self.failed = False
        """The environment raised an error: it is not handed to another client."""
        self.number: Any = None
        """Number of the newest call."""
        self.answer: Any = None
        """The answer to it in bytes; None while it is executed."""
        self.seq = 0
        self.lost = NO_EPISODE
        """Why there is no episode to go on with; empty while there is one."""
        self.connection: Any = None
        self.gone_since = time.monotonic()
        self.halted = False
        self.active_at = time.monotonic()
        """When its newest call came, or was answered."""
        self.silent = False
        """Motion was stopped because it was silent."""


class Server:
    """Environments of one kind for clients of one token. `make` is called in the thread that runs `run`."""

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        token: str,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Any = None,
        grace_s: float = GRACE_S,
        keep_s: float = KEEP_S,
        declared: Any = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._make, self._expected, self._tls, self._say = make, f"Bearer {token}".encode(), tls, say
        self._grace_s, self._keep_s = grace_s, keep_s
        first = make()
        self._free = [first]
        """Environments that no client uses."""
        self._description = describe(first)
        self._description.update(name=name, **(declared or {}))
        real = self._description["metadata"].get("clock") == "real"
        self._max_sessions = 1 if real else MAX_SESSIONS
        self._silence_s = float(self._description["metadata"].get("silence_s", SILENCE_S)) if real else 0.0
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._calls: Any = queue.SimpleQueue()
        self._sockets: set[Any] = set()
        self._listening = _listen(host, port)
        self.port = self._listening.getsockname()[1]

    def run(self) -> None:
        """Execute calls until `stop`, or until an exception such as KeyboardInterrupt."""
        for work in (self._accept_connections, self._watch_clients):
            threading.Thread(target=work, daemon=True).start()
        try:
            while True:
                job = self._calls.get()
                if job is None:
                    return
                self._execute(*job)
        finally:
            self._end()

    def stop(self) -> None:
        """From any thread: `run` returns after the call that is being executed; motion is stopped now."""
        self.halt_all()
        self._calls.put(None)

    def halt_all(self) -> None:
        with self._lock:
            sessions = list(self._sessions.values())
        for session in sessions:
            _halted(session)

    def _end(self) -> None:
        self.halt_all()
        self._listening.close()
        for env in [*self._free, *(session.env for session in self._sessions.values())]:
            _close_environment(env)

    # ---- receiving, one thread for each connection

    def _accept_connections(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            if len(self._sockets) >= MAX_CONNECTIONS:
                sock.close()
                continue
            self._sockets.add(sock)
            threading.Thread(target=self._converse, args=(sock,), daemon=True).start()

    def _converse(self, sock: Any) -> None:
        session, connection, raw = None, None, sock
        try:
            prepare_socket(sock)
            if self._tls is not None:
                sock.settimeout(HANDSHAKE_S)
                sock = self._tls.wrap_socket(sock, server_side=True)
            connection = Connection(sock)
            connection.open(self._accepts)
            session, calls = self._greet(connection, unpack(connection.receive()))
            while True:
                self._take(session, connection, unpack(connection.receive()), calls)
        except (Closed, OSError):
            pass
        except Exception as problem:  # bytes that are no message of ours: this connection ends, nothing else does
            self._say(f"a connection was closed: {type(problem).__name__}: {problem}")
        finally:
            self._sockets.discard(raw)
            self._forget_connection(session, connection)
            (connection or sock).close()

    def _accepts(self, request: Any) -> bool:
        shown = request.headers.get_all("Authorization")
        return len(shown) == 1 and hmac.compare_digest(shown[0].encode(), self._expected)

    def _greet(self, connection: Connection, hello: Any) -> tuple[Session, bool]:
        """The session of a client, and whether this connection is for its calls (else it is for `halt` alone)."""
        refused, known, session = self._objection(hello), False, None
        calls = not refused and hello["role"] == "calls"
        if not refused:
            with self._lock:
                known = hello["session"] in self._sessions
                if not known and not calls:
                    refused = ("unknown", "no such session; it has to be opened before it can be halted")
                elif not known and not self._make_room():
                    refused = ("busy", f"{len(self._sessions)} clients use this environment, the most that it serves; stop one of them")
                else:
                    session = self._sessions.setdefault(hello["session"], Session(hello["session"]))
                    if calls:
                        before, session.connection, session.halted = session.connection, connection, False
                        if before is not None:
                            before.close()
        if session is None:
            connection.send(pack({"refused": refused[0], "message": refused[1], "protocol": PROTOCOL}))
            raise Closed
        about = {"welcome": PROTOCOL, "known": known, "versions": versions(), "description": self._description, "time": time.monotonic()}
        connection.send(pack(about))
        return session, calls

    def _objection(self, hello: Any) -> Any:
        if not isinstance(hello, dict) or hello.get("hello") != PROTOCOL:
            got = hello.get("hello") if isinstance(hello, dict) else type(hello).__name__
            return "protocol", f"this server speaks version {PROTOCOL} of the protocol, the client {got}; use the same version of Tandem"
        if not isinstance(hello.get("session"), str) or not 8 <= len(hello["session"]) <= 64 or hello.get("role") not in ("calls", "halt"):
            return "protocol", "a greeting has a session (8 to 64 characters) and the role `calls` or `halt`"
        return None

    def _make_room(self) -> bool:
        """Whether another session may be opened; a client that is gone for longer than the grace time gives way to a new one."""
        if len(self._sessions) < self._max_sessions:
            return True
        gone = [s for s in self._sessions.values() if s.connection is None and time.monotonic() - s.gone_since > self._grace_s]
        if not gone:
            return False
        self._release(min(gone, key=lambda session: session.gone_since))
        return True

    def _release(self, session: Session) -> None:
        """Under the lock. Its environment is given back by the main thread, after the calls that are still queued."""
        self._sessions.pop(session.name, None)
        self._calls.put((session, None))

    def _take(self, session: Session, connection: Connection, call: Any, calls: bool) -> None:
        """A call: done before, being done, new, or not allowed."""
        number = call.get("number")
        if not isinstance(number, int) or not isinstance(call.get("call"), str):
            raise ValueError("a call has a name and a number")
        if call["call"] == "halt":
            connection.send(pack({**_halted(session), **self._stamp(session), "answer": number}))
            return
        if not calls:
            raise ValueError("this connection is for `halt` alone")
        with self._lock:
            repeated = session.number == number
            if not repeated and session.number is not None and number != session.number + 1:
                raise ValueError(f"call {number} after call {session.number}")
            session.active_at, session.silent = time.monotonic(), False
            if not repeated:
                session.number, session.answer = number, None
            answer = session.answer
        if not repeated:
            self._calls.put((session, call))
        elif answer is not None:
            connection.send(answer)

    def _forget_connection(self, session: Any, connection: Any) -> None:
        with self._lock:
            if session is not None and session.connection is connection:
                session.connection, session.gone_since = None, time.monotonic()

    def _stamp(self, session: Session) -> dict[str, Any]:
        with self._lock:
            session.seq += 1
            return {"seq": session.seq, "time": time.monotonic()}

    def _watch_clients(self) -> None:
        """Stop the motion of clients that are gone, and forget those that do not come back."""
        while True:
            time.sleep(min(0.1, self._grace_s / 4))
            now = time.monotonic()
            with self._lock:
                gone = [s for s in self._sessions.values() if s.connection is None and now - s.gone_since > self._grace_s]
                for session in gone:
                    if now - session.gone_since > self._keep_s:
                        self._release(session)
                silent = [s for s in self._sessions.values() if self._is_silent(s, now)]
            for session in gone:
                if not session.halted:
                    session.halted = True
                    self._stop_motion_of(session)
            for session in silent:
                session.silent = True
                made = _halted(session)
                how = "was stopped" if made["halted"] else "could not be stopped"
                self._say(f"motion {how}, because the client was silent for more than {self._silence_s:g} s; its next call goes on")

    def _is_silent(self, session: Session, now: float) -> bool:
        """In the middle of an episode, no call is executed, and none has come for too long: a client that hangs, or a robot that waits."""
        idle = session.answer is not None and not session.lost and not session.silent
        return self._silence_s > 0 and idle and now - session.active_at > self._silence_s

    def _stop_motion_of(self, session: Session) -> None:
        made = _halted(session)
        if made["halted"]:
            session.lost = f"motion was stopped, because the client was gone for more than {self._grace_s:g} s"
            self._say(session.lost)
        elif "error" in made:
            self._say(f"the client is gone, and motion could not be stopped: {made['error']['traceback']}")

    # ---- executing, in the main thread

    def _execute(self, session: Session, call: Any) -> None:
        if call is None or call["call"] == "close":
            self._give_back(session)
        if call is None:
            return
        began = time.perf_counter()
        try:
            made = self._answer(session, call)
        except Exception as problem:  # the environment's own
            session.failed, session.lost = True, "the environment raised an error"
            made = {"error": failure(problem, call["call"])}
        answer = pack({**made, **self._stamp(session), "answer": call["number"], "seconds": time.perf_counter() - began})
        with self._lock:
            session.active_at = time.monotonic()
            if session.number == call["number"]:
                session.answer = answer
            connection = session.connection
        if connection is not None:
            try:
                connection.send(answer)
            except Exception:  # gone, or not reading: it comes back and asks again
                connection.close()

    def _answer(self, session: Session, call: Any) -> dict[str, Any]:
        kind = call["call"]
        if kind == "step":
            return {"lost": session.lost} if session.lost else _step(session.env, call["action"])
        if kind == "close":
            return {}
        if session.env is None:
            session.env = self._free.pop() if self._free else self._make()
        if kind == "reset":
            observation, info = session.env.reset(seed=call.get("seed"), options=call.get("options"))
            session.lost = ""
            return {"observation": wire_observation(observation), "info": plain(info)}
        if kind == "render":
            picture = session.env.render()
            image = wire_image(picture) if isinstance(picture, (bytes, bytearray)) else None
            return {"picture": image or (wire_array(picture) if isinstance(picture, np.ndarray) else None), "type": type(picture).__name__}
        raise ValueError(f"no call '{kind}'; there are reset, step, render, halt and close")

    def _give_back(self, session: Session) -> None:
        _halted(session)
        env, session.env, session.lost = session.env, None, NO_EPISODE
        with self._lock:
            self._sessions.pop(session.name, None)
        if env is not None and session.failed:
            _close_environment(env)
        elif env is not None:
            self._free.append(env)


def _step(env: Any, action: Any) -> dict[str, Any]:
    observation, reward, terminated, truncated, info = env.step(np.array(action))
    flags = {"terminated": terminated, "truncated": truncated, "reward": reward}
    return {"observation": wire_observation(observation), **{key: wire_value(value) for key, value in flags.items()}, "info": plain(info)}


def wire_value(value: Any) -> Any:
    """One plain value where it is one; the client refuses anything else and says so."""
    return value if isinstance(value, (bool, int, float)) else value.item() if np.shape(value) == () else wire_array(value)


def _halted(session: Session) -> dict[str, Any]:
    """Stop all motion now, where the environment can. Called by any thread."""
    try:
        halt = None if session.env is None else find_attribute(session.env, "halt")
        if halt is not None:
            halt()
        return {"halted": halt is not None}
    except Exception as problem:
        return {"halted": False, "error": failure(problem, "halt")}


def _close_environment(env: Any) -> None:
    try:
        if env is not None:
            env.close()
    except Exception:
        traceback.print_exc()


def versions() -> dict[str, str]:
    """Of Python and of the packages that matter, where they are loaded."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "msgpack", "websockets", "gymnasium", "mujoco", "torch"):
        module = sys.modules.get(name)
        version = None if module is None else getattr(module, "__version__", None) or getattr(module, "version", None)
        if version is not None:
            found[name] = version if isinstance(version, str) else ".".join(str(part) for part in version)
    return found


# ---- the program


def _listen(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    listening.listen(MAX_CONNECTIONS)
    return listening


def is_loopback(host: str) -> bool:
    return host in ("127.0.0.1", "::1", "localhost")


def read_token(path: str) -> str:
    """The token in a file; a file that does not exist is made, with a new token, for its owner alone."""
    if not os.path.exists(path):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
    with open(path) as file:
        token = file.read().strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"the file {path} holds no token: it is empty, or has characters that no token has")
    return token


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def end_with_parent(server: Server) -> None:
    """The process that started this one holds our standard input: when that closes, it is gone."""

    def wait() -> None:
        while os.read(0, 4096):
            pass
        server.stop()
        time.sleep(ENDING_S)
        os._exit(0)  # a call that hangs, or an environment that does not close

    threading.Thread(target=wait, daemon=True).start()


def parse(arguments: Any = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve a Gymnasium environment to Tandem.")
    parser.add_argument("env", help="module:Id, or an id of Gymnasium's")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 lets other machines in")
    parser.add_argument("--port", type=int, default=5599)
    parser.add_argument("--token-file", help="made if it does not exist; without it the variable TANDEM_TOKEN is read")
    parser.add_argument("--certificate", help="TLS certificate (PEM)")
    parser.add_argument("--key", help="its key (PEM)")
    parser.add_argument("--insecure", action="store_true", help="allow other machines without TLS")
    parser.add_argument("--render", action="store_true", help="make the environment with render_mode='rgb_array'")
    parser.add_argument("--watched", action="store_true", help="the same, if the environment can be made so")
    parser.add_argument("--grace", type=float, default=GRACE_S, help="seconds that a client may be gone before motion is stopped")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)  # a process of Tandem started this one and waits for the port
    return parser.parse_args(arguments)


def checked_access(host: str, token_file: Any, certificate: Any, key: Any, insecure: bool) -> tuple[str, Any]:
    """The token and the TLS settings; raises ValueError where others could read along, or get in."""
    if not is_loopback(host) and not certificate and not insecure:
        raise ValueError(f"--host {host} lets other machines in: give --certificate and --key, or type --insecure")
    token = read_token(token_file) if token_file else os.environ.get("TANDEM_TOKEN", "")
    if not token:
        raise ValueError("no token: give --token-file FILE (it is made if it does not exist), or set the variable TANDEM_TOKEN")
    return token, tls_context(certificate, key) if certificate else None


def run_program(arguments: Any = None) -> None:
    options = parse(arguments)
    report = _reporter(options.ready_fd)
    if MISSING:
        report({"missing": MISSING, "python": sys.executable})
        sys.exit(f"{sys.executable} lacks {', '.join(MISSING)}: {sys.executable} -m pip install {' '.join(MISSING)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        token, tls = checked_access(options.host, options.token_file, options.certificate, options.key, options.insecure)
        watched = options.watched and not options.render
        make = lambda: make_watched(options.env) if watched else make_environment(options.env, options.render)  # noqa: E731
        server = Server(options.env, make, token, options.host, options.port, tls, options.grace, say=_say)
    except Exception as problem:
        report({"error": failure(problem, "making the environment"), "python": sys.executable})
        if options.ready_fd is None and not isinstance(problem, (ValueError, OSError)):
            raise
        sys.exit(f"error: {problem}")
    if options.ready_fd is not None:
        end_with_parent(server)
        report({"port": server.port})
    else:
        _say(f"serving {options.env} at {'wss' if tls else 'ws'}://{options.host}:{server.port}; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        server.run()


def _say(line: str) -> None:
    print(f"[SERVE] {line}", file=sys.stderr, flush=True)


def _reporter(descriptor: Any) -> Callable[[dict[str, Any]], None]:
    def report(record: dict[str, Any]) -> None:
        if descriptor is not None:
            os.write(descriptor, json.dumps(record).encode() + b"\n")

    return report


if __name__ == "__main__":
    run_program()
