"""A person records demonstrations with the keys of a browser."""

from pathlib import Path
from typing import Any

from tandem.data.demos import read_demos
from tests.dashboard.page_samples import Started, Visitor
from tests.waiting import wait_for

TASK = "tests.dashboard.pictured_reach:PicturedReach-v0"
KEYS = (("KeyW", "KeyS"), ("KeyA", "KeyD"), ("KeyR", "KeyF"))
"""Of x, y, z: more, less."""
NEAR = 0.012
"""Half of what counts as there (m)."""


def wanted_keys(to_ball: list[float]) -> set[str]:
    return {more if distance > 0 else less for distance, (more, less) in zip(to_ball, KEYS, strict=True) if abs(distance) > NEAR}


def go_to_the_ball(visitor: Visitor) -> None:
    """As a person does: look where it is, press, look again, until the episode ends."""
    held: set[str] = set()
    while (phase := visitor.tab.evaluate("tandem.state.recording.phase")) == "recording":
        wanted = wanted_keys(visitor.view()["observation"]["to_ball"])
        for key in held - wanted:
            visitor.tab.keyboard.up(key)
        for key in wanted - held:
            visitor.tab.keyboard.down(key)
        held = wanted
        visitor.tab.wait_for_timeout(40)
    for key in held:
        visitor.tab.keyboard.up(key)
    assert phase == "judging"


def look_through_the_camera(visitor: Visitor) -> None:
    """The picture that is shown has red in the middle and green at its edge, as the environment made it; then back to the drawing."""
    visitor.until("document.querySelectorAll('#camera option').length === 2")
    visitor.tab.select_option("#camera", "wrist")
    visitor.until("tandem.image?.naturalWidth === 64")
    pixel = """([x, y]) => {
      const canvas = document.createElement("canvas"), g = canvas.getContext("2d");
      canvas.width = 64; canvas.height = 48;
      g.drawImage(tandem.image, 0, 0);
      return [...g.getImageData(x, y, 1, 1).data];
    }"""
    red, green = visitor.tab.evaluate(pixel, [32, 24]), visitor.tab.evaluate(pixel, [2, 2])
    assert red[0] > 150 > 60 > red[1] and green[1] > 120 > 60 > green[0], (red, green)
    visitor.tab.select_option("#camera", "")
    visitor.until("!tandem.image")


def test_a_robot_without_shapes_is_shown_by_the_picture_that_it_draws_of_itself(browser: Any, tmp_path: Path) -> None:
    """At once, without a choice of camera: there is nothing else to see. The square moves as the point does."""
    task = "tests.dashboard.drawn_point:DrawnPoint-v0"
    recording = Started(tmp_path, "record", task, "--operator", "browser", "--demos", "1", "--out", str(tmp_path / "demos"))
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    try:
        visitor = Visitor(context, recording.link())
        visitor.until("tandem.image?.naturalWidth === 60")
        assert visitor.tab.evaluate("[tandem.camera, document.getElementById('stage-empty').hidden]") == ["own picture", True]
        brightest = """() => {
          const canvas = document.createElement("canvas"), g = canvas.getContext("2d");
          canvas.width = 60; canvas.height = 40;
          g.drawImage(tandem.image, 0, 0);
          const row = [...g.getImageData(0, 20, 60, 1).data].filter((_, i) => i % 4 === 0);
          return row.indexOf(Math.max(...row));
        }"""
        before = visitor.tab.evaluate(brightest)
        visitor.take()
        visitor.tab.keyboard.press("Enter")
        visitor.until("tandem.state.recording.phase === 'recording'")
        visitor.hold("KeyW", 0.6)
        visitor.until(f"({brightest})() > {before + 8}")
        assert not visitor.errors, visitor.errors
        visitor.tab.select_option("#camera", "")
        visitor.until("!tandem.image && !document.getElementById('stage-empty').hidden")
    finally:
        context.close()
        recording.stop()


def test_a_robot_that_cannot_draw_itself_says_why(browser: Any, tmp_path: Path) -> None:
    """Also to a page that is opened later, when the actor has long stopped to ask for pictures."""
    task = "tests.dashboard.drawn_point:BlindPoint-v0"
    recording = Started(tmp_path, "record", task, "--operator", "browser", "--demos", "1", "--out", str(tmp_path / "demos"))
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    try:
        for _ in range(2):
            visitor = Visitor(context, recording.link())
            visitor.until("document.getElementById('stage-empty').textContent.includes('pygame is not installed')")
            assert visitor.tab.evaluate("[tandem.camera, document.getElementById('stage-empty').hidden]") == ["own picture", False]
            assert "No picture from 'own picture': environment '" in visitor.tab.inner_text("#stage-empty") and not visitor.errors
        visitor.tab.select_option("#camera", "")
        visitor.until("document.getElementById('stage-empty').textContent.includes('no shapes to draw')")
    finally:
        context.close()
        recording.stop()


def test_two_demonstrations_are_recorded_by_hand(browser: Any, tmp_path: Path) -> None:
    """One is discarded in between and leaves no trace; the program ends when it has two."""
    recording = Started(tmp_path, "record", TASK, "--operator", "browser", "--demos", "2", "--out", str(tmp_path / "demos"))
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    try:
        visitor = Visitor(context, recording.link())
        visitor.until("tandem.view && tandem.state.recording")
        visitor.tab.evaluate("tandem.asSeen = false")
        assert visitor.tab.inner_text("#record-count") == "0 of 2 kept"
        look_through_the_camera(visitor)
        visitor.take()
        visitor.tab.keyboard.press("Enter")
        visitor.until("tandem.state.recording.phase === 'recording'")
        visitor.tab.click("[data-record=discard]")
        visitor.until("tandem.state.recording.phase === 'ready'")
        lengths: list[int] = []
        for _ in range(8):
            visitor.tab.keyboard.press("Enter")
            visitor.until("tandem.state.recording.phase === 'recording'")
            go_to_the_ball(visitor)
            visitor.until("tandem.view.notice.includes('steps: keep')")
            if not visitor.view()["success"]:
                visitor.tab.keyboard.press("KeyX")
                visitor.until("tandem.state.recording.phase === 'ready'")
                continue
            lengths.append(visitor.view()["step"])
            visitor.tab.keyboard.press("Enter")
            if len(lengths) == 2:
                break
            visitor.until("document.getElementById('record-count').textContent === '1 of 2 kept'")
        assert recording.process.wait(20) == 0, recording.log.read_text()
        assert not visitor.errors, visitor.errors
    finally:
        context.close()
        recording.stop()
    [file] = wait_for(lambda: list((tmp_path / "demos").glob("*.db")), 40, what="the file is there")
    episodes = read_demos(file).episodes()
    assert [len(episode) for episode in episodes] == lengths
    assert all(episode[-1].success and all(step.intervened for step in episode) for episode in episodes)
