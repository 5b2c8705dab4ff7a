"""A person at the page of a run that is going on: a real browser, a real run, a simulated arm."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.dashboard.page_samples import SMALL, Started, Visitor, asked, logged_in, stored
from tests.waiting import wait_for

REMEMBER = """() => {
  window.seen = [];
  const before = tandem.frame.bind(tandem);
  tandem.frame = (data) => {
    before(data);
    const view = tandem.view;
    if (view) seen.push([view.steps, view.who, view.state, view.action]);
  };
}"""
"""Every view that comes to the page from now on."""
PAD = """() => {
  window.pad = { connected: true, id: "test pad", axes: [0, 0, 0, 0], buttons: Array.from({ length: 17 }, () => ({ value: 0 })) };
  navigator.getGamepads = () => [window.pad];
}"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    folder = tmp_path_factory.mktemp("page")
    started = Started(folder, "train", "gear_assembly", "--run", str(folder / "run"), "--scripted-demos", "1", *SMALL)
    try:
        started.link()
        wait_for(lambda: asked(folder / "run", "/api/clocks")["actor_step"] > 0, 60, what="an actor acts")
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def run(trained: Started) -> Path:
    return trained.log.parent / "run"


@pytest.fixture(scope="module")
def link(trained: Started) -> str:
    """As it was printed when the run started."""
    return trained.link()


@pytest.fixture(scope="module")
def address(link: str) -> str:
    return link.partition("://")[2].partition("/")[0]


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1366, "height": 768})
    yield context
    context.close()


@pytest.fixture(scope="module")
def visitor(context: Any, link: str) -> Iterator[Visitor]:
    visitor = Visitor(context, link)
    visitor.until("tandem.view")
    visitor.tab.evaluate(REMEMBER)
    yield visitor
    assert not visitor.errors, visitor.errors


@pytest.fixture(autouse=True)
def hands_off(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails with a hand on the robot does not take the others with it."""
    yield
    if "visitor" in request.fixturenames:
        visitor: Visitor = request.getfixturevalue("visitor")
        for tab in visitor.tab.context.pages:
            if tab != visitor.tab:
                tab.close()
        if not visitor.tab.is_closed() and visitor.who() == "YOU":
            visitor.tab.evaluate("tandem.input.clear()")
            visitor.let_go()


def status_of(address: str, path: str, headers: dict[str, str] | None = None) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", headers=headers or {}), timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


def test_without_the_token_no_page_no_script_and_no_websocket(address: str, run: Path) -> None:
    ours = ("/", "/?token=wrong", "/page/assets/page.js", "/page/files", "/page/episodes?file=journal")
    for path in (*ours, "/_nicegui/3.18.0/static/nicegui.js", "/_nicegui_ws/socket.io/"):
        assert status_of(address, path) == 401, path
    for path in ("/page/socket", "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"):
        with pytest.raises(InvalidStatus), connect(f"ws://{address}{path}", proxy=None):
            pass


def test_the_cookie_opens_a_websocket_only_for_our_own_pages(address: str, run: Path) -> None:
    cookie = logged_in(address, (run / "token").read_text().strip())
    assert status_of(address, "/page/files", cookie) == 200
    for path in ("/page/socket", "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"):
        for origin in ("", "http://elsewhere.example", "http://127.0.0.1:1"):  # another port of this machine is another page
            with pytest.raises(InvalidStatus), connect(f"ws://{address}{path}", additional_headers=cookie | {"Origin": origin}, proxy=None):
                pass
        with connect(f"ws://{address}{path}", additional_headers=cookie | {"Origin": f"http://{address}"}, proxy=None):
            pass


def test_a_browser_without_the_token_gets_a_form(browser: Any, address: str, link: str) -> None:
    context = browser.new_context()
    tab = context.new_page()
    assert tab.goto(f"http://{address}/").status == 401 and "token" in tab.inner_text("#why")
    tab.fill("#token", "wrong")
    tab.click("button")
    assert tab.locator("#token").count() == 1
    tab.fill("#token", link.partition("token=")[2])
    tab.click("button")
    tab.wait_for_function("window.tandem && tandem.id")
    [cookie] = context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and link.partition("token=")[2] not in cookie["value"]
    assert "token" not in tab.url
    context.close()


def test_the_numbers_move_and_nothing_is_loaded_from_elsewhere(visitor: Visitor, address: str, run: Path) -> None:
    visitor.until("document.getElementById('phase').textContent === 'training'", 30)
    learns = "Number(document.getElementById('clock-learner').textContent.replaceAll(',', '')) > 0"
    visitor.until(learns, 90)  # the first update is compiled, beside whatever else this machine does
    steps, learned = visitor.number("clock-actor"), visitor.number("clock-learner")
    visitor.until(f"Number(document.getElementById('clock-actor').textContent.replaceAll(',', '')) > {steps}")
    visitor.until(f"Number(document.getElementById('clock-learner').textContent.replaceAll(',', '')) > {learned}", 20)
    assert "the actor acts with" in visitor.tab.inner_text("#words")
    assert visitor.tab.inner_text("#advice-phase")
    visitor.until("document.querySelectorAll('.plot').length >= 6", 20)
    assert all(url.partition("://")[2].startswith(address) or url.startswith(("data:", "blob:")) for url in visitor.requests)


def test_a_page_has_one_websocket_so_nothing_else_can_reload_it(visitor: Visitor) -> None:
    visitor.until("!window.socket.connected && !window.socket.active")


def test_the_robot_is_drawn_where_it_is(visitor: Visitor) -> None:
    visitor.until("tandem.robot && tandem.robot.bodies.length > 5")
    visitor.until("tandem.robot.poses.some((value) => value !== 0)")
    assert visitor.tab.evaluate("tandem.robot.bodies.filter((body) => body.children.length).length") > 5


# Which key moves which component of the tool's pose which way, as seen by a person who looks along x.
MOVES = {
    "KeyW": (0, +1), "KeyS": (0, -1), "KeyA": (1, +1), "KeyD": (1, -1), "KeyR": (2, +1), "KeyF": (2, -1),
    "ArrowRight": (3, +1), "ArrowLeft": (3, -1), "ArrowUp": (4, +1), "ArrowDown": (4, -1), "KeyQ": (5, +1), "KeyE": (5, -1),
}  # fmt: skip
MOVED = (0.006, 0.006, 0.006, 0.03, 0.03, 0.03)
"""Four actions of 0.6 x 7 mm or 3 degrees make 17 mm or 7 degrees; a third of that is asked for (m, rad)."""
RESTS = "tandem.view.action.every((axis) => Math.abs(axis) < 1e-3)"


def test_each_key_moves_the_arm_its_own_way(visitor: Visitor) -> None:
    """Checked by what the robot observes, from the start of an episode, where there is room in all directions."""
    visitor.tab.evaluate("tandem.asSeen = false")
    visitor.take()
    for first, second in zip(list(MOVES)[::2], list(MOVES)[1::2], strict=True):
        fresh_episode(visitor)
        for key in (first, second):
            axis, sign = MOVES[key]
            before = visitor.view()
            visitor.tab.keyboard.down(key)
            acts = f"seen.filter((view) => view[0] > {before['steps']} && Math.abs(view[3][{axis}]) > 0.1)"
            during = visitor.view_when(f"new Set({acts}.map((view) => view[0])).size >= 4 && !{RESTS}")
            visitor.tab.keyboard.up(key)
            visitor.until(RESTS)
            visitor.until(f"tandem.view.steps >= {visitor.view()['steps']} + 6")  # a soft arm follows its command for a while
            after = visitor.view()
            assert before["episode"] == after["episode"]
            moved = sign * (after["observation"]["tcp_pose"][axis] - before["observation"]["tcp_pose"][axis])
            assert moved > MOVED[axis], f"{key}: {moved}"
            acted = np.array(during["action"])
            assert np.argmax(np.abs(acted)) == axis and sign * acted[axis] > 0.1, f"{key}: {acted}"
            assert during["who"] == "person" and during["holder"] == visitor.tab.evaluate("tandem.id")
    visitor.let_go()
    visitor.until_who("POLICY")


def fresh_episode(visitor: Visitor) -> None:
    """The person gives this one up."""
    episode = visitor.view()["episode"]
    visitor.tab.keyboard.press("Backspace")
    visitor.until(f"tandem.view.episode > {episode}")


def test_keys_follow_the_viewpoint_from_the_other_side(visitor: Visitor) -> None:
    visitor.tab.evaluate("tandem.asSeen = true; tandem.robot.look({ lookat: [0.5, 0, 0.1], distance: 1, azimuth: 180, elevation: -30 })")
    visitor.take()
    visitor.tab.keyboard.down("KeyW")  # away from the person, who looks along -x
    action = visitor.view_when("tandem.view.who === 'person' && Math.abs(tandem.view.action[0]) > 0.1")["action"]
    visitor.tab.keyboard.up("KeyW")
    assert action[0] == pytest.approx(-0.6) and action[1] == pytest.approx(0, abs=1e-6)
    visitor.let_go()
    visitor.tab.evaluate("tandem.asSeen = false")


def test_keys_are_released_when_the_window_loses_the_focus(visitor: Visitor) -> None:
    visitor.take()
    visitor.tab.keyboard.down("KeyR")
    visitor.until("tandem.view.action[2] > 0.5")
    visitor.tab.evaluate("dispatchEvent(new Event('blur'))")  # no key-up comes from a window without focus
    visitor.until("tandem.view.action[2] === 0")
    visitor.tab.keyboard.up("KeyR")
    visitor.let_go()


def test_keys_of_a_page_without_control_do_nothing(visitor: Visitor) -> None:
    visitor.until_who("POLICY")
    before = visitor.tab.evaluate("seen.length")
    visitor.hold("KeyW", 0.3)
    visitor.until(f"seen.length > {before} + 2")
    who = visitor.tab.evaluate(f"seen.slice({before}).map((view) => view[1])")
    assert "policy" in who and "person" not in who


def test_a_gamepad_holds_control_while_its_button_is_down(visitor: Visitor) -> None:
    visitor.tab.evaluate(PAD)
    visitor.tab.evaluate("pad.buttons[5].value = 1")
    visitor.until_who("YOU")
    visitor.tab.evaluate("pad.axes[1] = -1")  # away from oneself: +x, 0.6 of the largest action
    visitor.until("Math.abs(tandem.view.action[0] - 0.6) < 1e-4")
    visitor.tab.evaluate("pad.axes[1] = 0.1")  # within the dead zone
    visitor.until("tandem.view.action[0] === 0")
    visitor.tab.evaluate("pad.buttons[5].value = 0")
    visitor.until_who("POLICY")
    visitor.tab.evaluate("() => { navigator.getGamepads = () => []; }")


def test_stop_works_without_control_and_only_a_person_resumes(visitor: Visitor) -> None:
    visitor.tab.keyboard.press("Escape")
    visitor.until_who("STOPPED")
    steps = visitor.view()["steps"]
    visitor.tab.wait_for_timeout(600)
    assert visitor.view()["steps"] == steps
    visitor.tab.click("#go")
    visitor.until_who("POLICY")
    visitor.until(f"tandem.view.steps > {steps}")


def test_several_watch_one_has_control_and_a_lost_page_leaves_the_robot_standing(context: Any, visitor: Visitor, link: str) -> None:
    other = Visitor(context, link)
    other.until("tandem.view")
    other.take()
    visitor.until_who("ANOTHER PAGE")
    assert visitor.tab.is_disabled("#take")
    other.tab.keyboard.down("KeyR")
    other.until("tandem.view.action[2] > 0.5")
    other.tab.close()
    visitor.until_who("NOBODY", 2)
    assert "lost while holding: standing still" in visitor.tab.inner_text("#who-note")
    visitor.until("tandem.view.action.every((value) => value === 0)", 2)
    place = visitor.view()["observation"]["tcp_pose"]
    visitor.tab.wait_for_timeout(500)
    assert np.allclose(visitor.view()["observation"]["tcp_pose"][:3], place[:3], atol=0.002)
    visitor.tab.wait_for_timeout(3200)  # and it stays so: the policy does not begin again by itself
    assert visitor.who() == "NOBODY"
    visitor.tab.click("#go")
    visitor.until_who("POLICY")


def test_a_person_marks_an_episode_as_success(visitor: Visitor, run: Path) -> None:
    visitor.take()
    visitor.until("tandem.view.step > 2")
    episode = visitor.view()["episode"]
    visitor.tab.keyboard.press("Enter")
    visitor.until(f"tandem.view.episode === {episode + 1}")
    visitor.let_go()
    ends = wait_for(
        lambda: [step for step in stored(run).values() if step.episode == episode and step.last], 40, what="the last step is stored"
    )
    assert [(step.success, step.reward, step.terminated, step.intervened) for step in ends] == [(True, 1.0, True, True)]


def test_invalid_messages_of_a_page_affect_only_that_page(address: str, run: Path, visitor: Visitor) -> None:
    headers = logged_in(address, (run / "token").read_text().strip()) | {"Origin": f"http://{address}"}
    nonsense = ["", "{", "[]", "null", '{"do": "fly"}', '{"do": "look"}', '{"do": "steer", "keys": 7}', "x" * 20_000]
    nonsense += ['{"do": "run", "command": "format"}', '{"do": "robot", "command": "label", "detail": 7}']
    nonsense += ['{"do": "steer", "pad": {"axes": [NaN], "buttons": []}}']
    with connect(f"ws://{address}/page/socket", additional_headers=headers, proxy=None) as socket:
        for text in nonsense:
            socket.send(text)
        problems = 0
        while problems < len(nonsense):
            told = json.loads(socket.recv(timeout=10))
            problems += told["kind"] == "answer" and bool(told["problem"])
        socket.send(b"bytes")  # not even a text: this page is closed
    steps = visitor.view()["steps"]
    visitor.until(f"tandem.view.steps > {steps}")


def test_a_run_is_paused_and_resumed(visitor: Visitor) -> None:
    visitor.tab.click("#pause")
    visitor.until("document.getElementById('phase').textContent === 'paused'")
    learned = visitor.number("clock-learner")
    visitor.tab.wait_for_timeout(700)
    assert visitor.number("clock-learner") == learned
    visitor.tab.click("#resume")
    visitor.until("document.getElementById('phase').textContent === 'training'")
    visitor.until_who("POLICY")


def test_the_journal_holds_what_the_page_saw(visitor: Visitor, run: Path) -> None:
    """A view with n steps shows the step with the seq n - 1: one row, one actor."""
    seen: dict[int, tuple[str, list[float]]] = {}
    for steps, who, _, action in visitor.tab.evaluate("seen"):
        seen.setdefault(steps - 1, (who, action))  # the first after the step; later ones show the same robot standing still
    last = max(seen)
    journal = wait_for(lambda: (held := stored(run)) and last in held and held, 40, what="the journal has the last of them")
    stepped = range(min(seen), last + 1)
    assert sum(seq in seen for seq in stepped) > 0.95 * len(stepped), "views are missing"  # a busy browser may miss one
    by_person = {seq for seq in stepped if journal[seq].intervened}
    assert by_person and {seq for seq in seen if seen[seq][0] == "person"} == by_person & seen.keys()
    for seq, (_, action) in seen.items():
        assert np.allclose(journal[seq].action, action, atol=1e-4), seq


def test_the_run_is_stopped_from_the_page_and_its_episodes_stay(context: Any, visitor: Visitor, trained: Started, run: Path) -> None:
    """One click is not enough; afterwards `tandem dashboard RUN` shows what the run has left."""
    visitor.tab.click("#stop-run")
    assert "sure" in visitor.tab.inner_text("#stop-run") or "Really" in visitor.tab.inner_text("#stop-run")
    visitor.tab.click("#stop-run")
    visitor.until_who("NO CONNECTION", 30)
    assert trained.process.wait(30) == 0
    shown = Started(run.parent, "dashboard", str(run), "--no-browser")
    try:
        reader = Visitor(context, shown.link())
        reader.until("document.querySelectorAll('#episode-list tbody tr').length > 3")
        assert reader.who() == "OVER" and not reader.tab.is_visible("#take")
        reader.until("document.querySelectorAll('#episode-grid .plot').length >= 5")
        marked = reader.tab.locator("#episode-list tbody tr", has_text="success").first
        marked.click()
        reader.until("tandem.browser.episode?.success")
        episode = reader.tab.evaluate("tandem.browser.episode")
        stepped = [step for step in stored(run).values() if step.episode == episode["episode"]]
        assert episode["by_person"] == [step.intervened for step in stepped] and any(episode["by_person"])
        assert np.allclose(episode["actions"], [step.action for step in stepped], atol=1e-4)
        assert np.allclose(episode["path"][:-1], [step.observation["tcp_pose"][:3] for step in stepped], atol=1e-4)
        reader.tab.evaluate("tandem.browser.go(1)")
        assert reader.tab.inner_text("#at-text").startswith("step 1 of")
        reader.tab.select_option("#file", "demos0")
        reader.until("tandem.browser.episode?.source.startsWith('demo-')")
        assert not reader.errors, reader.errors
    finally:
        shown.stop()
