"""How often a robot asks, when it stops, and who is told."""

import http.server
import json
import threading
from typing import Any

import numpy as np
import pytest

from tandem.acting.asking import BUDGET_S, QUIET_S, AskEnded, Asking, AskingConfig
from tandem.acting.telling import AskEvents, Webhook
from tandem.errors import ConfigError
from tandem.teleop.ask import Ask
from tests.waiting import wait_for


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asking(clock: Clock, told: list[Any] | None = None, **config: Any) -> Asking:
    return Asking(AskingConfig(**config), [(told if told is not None else []).append], clock=clock)


def test_an_ask_is_told_once_and_so_is_its_end() -> None:
    told: list[Any] = []
    clock = Clock()
    one = asking(clock, told)
    assert one.begin("it stands", 40) and not one.begin("it still stands", 41)
    assert one.holds and one.words == "asks for help: it stands"
    clock.now = 3.0
    one.end("answered")
    one.end("answered")
    assert told == [Ask("it stands", 40), AskEnded(Ask("it stands", 40), "answered", 3.0)]
    assert not one.holds and one.words == ""


def test_while_it_asks_it_may_go_on() -> None:
    one = asking(Clock(), while_asking="go-on")
    one.begin("it stands", 1)
    assert not one.holds and one.ask == Ask("it stands", 1, holds=False)


def test_a_stand_in_who_comes_by_itself_is_not_waited_for() -> None:
    one = Asking(AskingConfig(), answers=lambda ask: ask.since == 7)
    one.begin("it stands", 7)
    assert one.ask is not None and not one.holds


def test_a_budget_in_ten_minutes() -> None:
    clock = Clock()
    one = asking(clock, asks=2)
    for at in (0.0, 100.0):
        clock.now = at
        assert one.begin("it stands", 1)
        one.end("answered")
    clock.now = 200.0
    assert not one.begin("it stands", 1)
    clock.now = BUDGET_S
    assert one.begin("it stands", 1), "the first is ten minutes ago"
    assert not asking(Clock(), asks=0).begin("it stands", 1)


def test_nobody_there_is_not_asked_again_until_somebody_shows_up_or_for_a_while() -> None:
    clock = Clock()
    one = asking(clock, ask_timeout=60.0)
    one.begin("it stands", 1)
    clock.now = 59.0
    one.tick()
    assert one.ask is not None
    clock.now = 60.0
    one.tick()
    assert one.ask is None and one.nobody_is_there and not one.begin("it stands", 1)
    again = asking(clock)
    again.restore(one.memory())
    assert again.nobody_is_there
    one.somebody_is_there()
    assert one.begin("it stands", 1)
    clock.now += QUIET_S
    assert again.begin("it stands", 1)


@pytest.mark.parametrize(
    ("setting", "words"),
    [({"ask_timeout": 0.0}, "--ask-timeout"), ({"asks": -1}, "--asks"), ({"webhook": "file:///etc/passwd"}, "--webhook must begin")],
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AskingConfig(**setting)


class Listener:
    """A web server that keeps what it gets; it answers when it may."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.may_answer = threading.Event()
        got, may_answer = self.got, self.may_answer

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                may_answer.wait(10)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


def test_a_webhook_gets_the_reason_and_a_picture_and_control_never_waits_for_it() -> None:
    listener, said = Listener(), list[str]()
    picture = {"wrist": np.full((8, 8, 3), 90, np.uint8), "state": np.zeros(3, np.float32)}
    hook = Webhook(listener.address, {"task": "peg", "actor": "robot 1"}, lambda: picture, said.append)
    try:
        hook(Ask("it stands", 40))  # returns although the listener does not answer
        wait_for(lambda: listener.got, what="the message")
        hook(Ask("another", 41))
        listener.may_answer.set()
        wait_for(lambda: not hook.busy, what="the end of the call")
        assert len(listener.got) == 1, "one call at a time; others are left out"
        message = listener.got[0]
        assert message.pop("picture").startswith("/9j/"), "a JPEG"
        assert message == {"task": "peg", "actor": "robot 1", "reason": "it stands", "step": 40, "state": "asks"}
        hook(AskEnded(Ask("it stands", 40), "answered", 2.0))
        wait_for(lambda: len(listener.got) == 2, what="its end")
        assert listener.got[1]["ending"] == "answered" and said == []
    finally:
        listener.server.shutdown()
        listener.server.server_close()


def test_a_webhook_that_nobody_takes_is_said_once() -> None:
    said: list[str] = []
    hook = Webhook("http://127.0.0.1:9/", {}, dict, said.append)
    for _ in range(2):
        hook(Ask("it stands", 40))
        wait_for(lambda: not hook.busy, what="the end of the call")
    assert len(said) == 1 and "did not take the message" in said[0]


def test_asks_and_their_ends_are_events_of_the_run() -> None:
    rows, said = list[tuple[str, dict[str, Any]]](), list[str]()
    events = AskEvents(lambda kind, **details: rows.append((kind, details)), "robot 1", lambda: 12, said.append)
    events(Ask("it stands", 40))
    events(AskEnded(Ask("it stands", 40), "unanswered", 60.04))
    about = {"actor": "robot 1", "episode": 12, "step": 40}
    assert rows == [("asked", {**about, "reason": "it stands"}), ("ask_ended", {**about, "ending": "unanswered", "seconds": 60.0})]

    def full(kind: str, **details: Any) -> None:
        raise OSError("no space left on device")

    AskEvents(full, "robot 1", lambda: 12, said.append)(Ask("it stands", 40))
    assert len(said) == 1 and "no space left" in said[0], "said, and control goes on"
