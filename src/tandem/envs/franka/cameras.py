"""Cameras by name, each read in a thread of its own: a RealSense, whatever OpenCV opens, or a stream that somebody serves.

A camera that fails is opened again. The one who acts waits for a picture that is newer than its command, and never for a camera.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import numpy as np

from tandem.envs.franka.profile import CameraProfile
from tandem.envs.http_robot.pictures import Shelf
from tandem.envs.http_robot.wire import MAX_BYTES
from tandem.errors import ConfigError, extras_named

AGAIN_S, SILENT_S = 0.3, 2.0
"""Pause before a camera is opened again, and how long one may be silent before it is."""
Source = Callable[[], Generator[bytes | np.ndarray]]
"""Opens a camera; gives its pictures as JPEGs or RGB arrays, and closes it in the end."""


class Cameras:
    """The newest picture of each camera."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.shelf = Shelf()
        self._closed, self._problems = threading.Event(), dict.fromkeys(sources, "no picture arrived yet")
        self._threads = [threading.Thread(target=self._stay, args=item, name=f"camera {item[0]}", daemon=True) for item in sources.items()]
        for thread in self._threads:
            thread.start()

    @property
    def problem(self) -> str:
        return "; ".join(f"{name}: {problem}" for name, problem in self._problems.items() if problem) or "all cameras are open"

    def _stay(self, name: str, source: Source) -> None:
        while not self._closed.is_set():
            try:
                with contextlib.closing(source()) as pictures:
                    for picture in pictures:
                        self.shelf.put(name, picture)
                        self._problems[name] = ""
                        if self._closed.is_set():
                            return
                self._problems[name] = "the stream has ended"
            except Exception as problem:  # each library has its own; this thread must go on
                self._problems[name] = str(problem) or type(problem).__name__
            self._closed.wait(AGAIN_S)

    def close(self) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join(SILENT_S)


def open_cameras(cameras: Mapping[str, CameraProfile], server: str) -> Cameras:
    return Cameras({name: _source(name, camera, server) for name, camera in cameras.items()})


def _source(name: str, camera: CameraProfile, server: str) -> Source:
    if camera.kind == "served":
        url = urljoin(server, camera.source)
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(f"[cameras.{name}] source = '{camera.source}': a served camera has an address http://HOST:PORT/PATH")
        return lambda: served(url, camera.hz)
    with extras_named(f"the camera '{name}' ({camera.kind})"):
        module = importlib.import_module("cv2" if camera.kind == "opencv" else "pyrealsense2")
    return lambda: (opencv if camera.kind == "opencv" else realsense)(module, camera)


# ---- OpenCV and RealSense; their modules are handed in, since they are optional


def opencv(cv2: Any, camera: CameraProfile) -> Generator[np.ndarray]:
    """A camera by its number, or a device, file or address that OpenCV opens."""
    capture = cv2.VideoCapture(int(camera.source) if camera.source.isdigit() else camera.source)
    try:
        if not capture.isOpened():
            raise OSError(f"OpenCV cannot open '{camera.source}'. Is it plugged in, and does no other program use it?")
        for setting, value in ((cv2.CAP_PROP_FRAME_WIDTH, camera.width), (cv2.CAP_PROP_FRAME_HEIGHT, camera.height)):
            capture.set(setting, value)
        capture.set(cv2.CAP_PROP_FPS, camera.hz)
        while True:
            read, picture = capture.read()
            if not read:
                raise OSError(f"'{camera.source}' gives no more pictures")
            yield np.ascontiguousarray(picture[..., ::-1])  # OpenCV's colours are blue, green, red
    finally:
        capture.release()


def realsense(rs: Any, camera: CameraProfile) -> Generator[np.ndarray]:
    """A RealSense camera by its serial number."""
    there = [device.get_info(rs.camera_info.serial_number) for device in rs.context().devices]
    if camera.source not in there:
        raise OSError(f"no RealSense with the serial number {camera.source}; there are {', '.join(there) or 'none'}")
    pipeline, config = rs.pipeline(), rs.config()
    config.enable_device(camera.source)
    config.enable_stream(rs.stream.color, camera.width, camera.height, rs.format.rgb8, camera.hz)
    started = pipeline.start(config)
    try:
        if camera.exposure:
            sensors = started.get_device().query_sensors()
            colour = next((sensor for sensor in sensors if sensor.is_color_sensor()), sensors[0])
            colour.set_option(rs.option.exposure, camera.exposure)
        while True:
            frame = pipeline.wait_for_frames(int(1e3 * SILENT_S)).get_color_frame()
            if frame:
                yield np.array(frame.get_data())
    finally:
        pipeline.stop()


# ---- served


def served(url: str, hz: int) -> Generator[bytes]:
    """An MJPEG stream, or a JPEG that is asked for again and again."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    while True:
        began = time.monotonic()
        connection = kind(parts.netloc, timeout=SILENT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            content = answer.headers.get_content_type()
            if answer.status != 200:
                raise OSError(f"{url} was answered with {answer.status} {answer.reason}")
            if content == "multipart/x-mixed-replace":
                yield from _parts(answer, url)
                return
            if content != "image/jpeg":
                raise OSError(f"{url} is {content}; expected image/jpeg or multipart/x-mixed-replace (MJPEG)")
            yield _bounded(answer, MAX_BYTES, url)
        finally:
            connection.close()
        time.sleep(max(0.0, began + 1 / hz - time.monotonic()))


def _parts(answer: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    """The JPEGs of an MJPEG stream; each part must say how long it is, as the servers of cameras do."""
    while line := answer.readline(1024):
        if not line.startswith(b"--"):
            continue
        length = None
        while (head := answer.readline(1024)) not in (b"\r\n", b"\n", b""):
            name, _, value = head.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        if length is None or not 0 < length <= MAX_BYTES:
            raise OSError(f"a picture of {url} says the length {length}; expected a Content-Length of at most {MAX_BYTES} bytes")
        picture = answer.read(length)
        if len(picture) < length:
            return
        yield picture


def _bounded(answer: http.client.HTTPResponse, most: int, url: str) -> bytes:
    data = answer.read(most + 1)
    if len(data) > most:
        raise OSError(f"{url} sent more than {most} bytes")
    return data
