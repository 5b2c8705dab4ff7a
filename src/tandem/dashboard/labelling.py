"""The page on which a person labels frames. It listens on this machine alone, and answers nobody without its token."""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image

from tandem.acting.view_stream import small
from tandem.errors import TandemError
from tandem.rewards.choosing import Candidate

PAGE = Path(__file__).parent / "assets" / "labels.html"
MAX_BODY = 10_000
_POLICY = "default-src 'none'; img-src 'self'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"


class LabelPage:
    """Serves frames and takes labels; `save` is called with each one. `serve` returns when the person has finished."""

    def __init__(self, frames: Sequence[Candidate], labels: Sequence[str], save: Callable[[Candidate, str], None], port: int = 0) -> None:
        self._frames, self._labels, self._save = frames, list(labels), save
        self._given: dict[int, str] = {}
        self._lock = Lock()
        """A browser asks several things at once; labels are saved one after the other."""
        self.token = secrets.token_urlsafe(16)
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.answer(self, b"")

            def do_POST(self) -> None:
                size = self.headers.get("Content-Length", "")
                if not size.isdigit() or int(size) > MAX_BODY:
                    self.send_error(HTTPStatus.BAD_REQUEST, "a body of another size was expected")
                    return
                page.answer(self, self.rfile.read(int(size)))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/?token={self.token}"

    def serve(self) -> None:
        try:
            self._server.serve_forever(poll_interval=0.1)
        finally:
            self._server.server_close()

    def stop(self) -> None:
        self._server.shutdown()

    # ---- requests

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        url = urlsplit(request.path)
        asked = {name: values[-1] for name, values in parse_qs(url.query).items()}
        token = request.headers.get("X-Token") if request.command == "POST" else asked.get("token")
        host = (request.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost") or not secrets.compare_digest(str(token).encode(), self.token.encode()):
            return _send(request, HTTPStatus.FORBIDDEN, "text/plain", b"open the link that `tandem reward label` printed")
        try:
            kind, content = self._found(request.command, url.path, asked, body)
        except (ValueError, KeyError, IndexError, TypeError, TandemError) as problem:
            return _send(request, HTTPStatus.BAD_REQUEST, "text/plain", f"{type(problem).__name__}: {problem}".encode())
        _send(request, HTTPStatus.OK, kind, content)
        if url.path == "/finish" and request.command == "POST":
            self.stop()

    def _found(self, command: str, path: str, asked: dict[str, str], body: bytes) -> tuple[str, bytes]:
        if command == "POST":
            if path == "/label":
                self._label(json.loads(body))
            elif path != "/finish":
                raise ValueError(f"nothing can be posted to {path}")
            return "application/json", b"{}"
        if path == "/":
            return "text/html; charset=utf-8", PAGE.read_bytes()
        if path == "/frames":
            return "application/json", json.dumps(
                {"labels": self._labels, "frames": [self._shown(i) for i in range(len(self._frames))]}
            ).encode()
        if path == "/picture":
            return "image/png", _png(self._frames[int(asked["frame"])], asked["camera"])
        raise ValueError(f"there is no {path}")

    def _label(self, given: Any) -> None:
        number, label = given["frame"], given["label"]
        if type(number) is not int or not 0 <= number < len(self._frames) or label not in self._labels:
            raise ValueError(f"a frame from 0 to {len(self._frames) - 1} and one of {', '.join(self._labels)} were expected")
        with self._lock:
            self._given[number] = label
            self._save(self._frames[number], label)

    def _shown(self, number: int) -> dict[str, Any]:
        candidate = self._frames[number]
        return {
            "number": candidate.number,
            "frame": candidate.frame.frame,
            "of": candidate.of,
            "values": dict(candidate.values),
            "label": self._given.get(number, ""),
            "cameras": list(candidate.cameras),
            "numbers": small(candidate.observation),
        }


def _png(candidate: Candidate, camera: str) -> bytes:
    picture, data = candidate.pictures()[camera], io.BytesIO()
    Image.fromarray(picture if picture.shape[2] == 3 else picture[..., 0]).save(data, "PNG")
    return data.getvalue()


def _send(request: BaseHTTPRequestHandler, status: HTTPStatus, kind: str, content: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(content)))
    request.send_header("Cache-Control", "no-store")
    request.send_header("Content-Security-Policy", _POLICY)
    request.send_header("Referrer-Policy", "no-referrer")
    request.end_headers()
    request.wfile.write(content)
