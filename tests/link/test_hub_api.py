"""The documented JSON API says what is there, and the page of documentation shows what it really answers."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from link_samples import SPEC, HubProcess, client, make_run, snapshot, step

from tandem.link.trainer_end import TrainerEnd
from tests.waiting import wait_for

PAGE = Path(__file__).parent.parent.parent / "docs" / "link.md"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory):
    """A hub with a trainer and an actor that has made some steps."""
    run = make_run(tmp_path_factory.mktemp("hub") / "run")
    with HubProcess(run) as hub:
        trainer, actor = TrainerEnd(run, SPEC), client(hub, tmp_path_factory.mktemp("spool"), name="left", pace="fast")
        trainer.publish(snapshot(1))
        trainer.beat(learner_step=0, phase="filling", steps_before=100, updates_per_actor_step=0.5)
        actor.connect()
        actor.acting_with(wait_for(actor.newest_policy))
        for number in range(30):
            assert actor.may_step(5)
            actor.send([step(number)])
        trainer.receive()
        trainer.beat(learner_step=12, phase="training", steps_before=20, updates_per_actor_step=0.5)
        wait_for(lambda: hub.api("status")["trainer"]["alive"], what="the hub to see the trainer")
        wait_for(lambda: hub.api("clocks")["actor_step"] == 30 and hub.api("actors")[0]["version"] == 1)
        yield hub
        actor.close()
        trainer.close()


def test_the_clocks(hub: HubProcess) -> None:
    clocks = hub.api("clocks")
    assert (clocks["learner_step"], clocks["actor_step"], clocks["policy_version"], clocks["phase"]) == (12, 30, 1, "training")
    assert (clocks["steps_before"], clocks["updates_per_actor_step"]) == (20, 0.5)


def test_the_status(hub: HubProcess) -> None:
    status = hub.api("status")
    assert status["task"] == "toy" and status["spec_hash"] == SPEC.hash and status["actors"] == 1
    assert status["trainer"]["phase"] == "training" and 0 < status["trainer"]["ord"] <= 30
    assert (status["policy"]["version"], status["policy"]["hash"]) == (1, snapshot(1).hash)
    assert status["journal"] == {"accepted": 30, "rejected": 0, "trouble": "", "state": "ok", "unreadable": 0}


def test_an_actor(hub: HubProcess) -> None:
    [actor] = hub.api("actors")
    assert (actor["name"], actor["pace"], actor["rows"], actor["connected"]) == ("left", "fast", 1, True)
    assert (actor["version"], actor["policy_hash"], actor["lag_versions"], actor["lag_s"]) == (1, snapshot(1).hash, 0, 0)
    assert wait_for(lambda: hub.api("actors")[0]["steps"] == 30 and hub.api("actors")[0]["unacknowledged"] == 0)
    assert (actor["stored"], actor["rejected"], actor["dropped"]) == (30, 0, 0)
    assert wait_for(lambda: 0 < hub.api("actors")[0]["round_trip_ms"] < 1000)
    assert abs(actor["clock_difference_s"]) < 1


def test_rows_continue_from_the_given_byte(hub: HubProcess) -> None:
    path = hub.run / "metrics.jsonl"
    path.write_text('{"learner_step": 10}\n{"learner_step": 20}\n{"learner_st')  # the last one is being written
    first = hub.api("metrics")
    assert first["rows"] == [{"learner_step": 10}, {"learner_step": 20}]
    with path.open("a") as file:
        file.write('ep": 30}\n')
    again = hub.api(f"metrics?after={first['next']}")
    assert again["rows"] == [{"learner_step": 30}]
    assert hub.api(f"metrics?after={again['next']}") == {"rows": [], "next": again["next"]}
    path.write_text("".join(f'{{"learner_step": {number}}}\n' for number in range(1500)))
    page = hub.api("metrics")
    assert len(page["rows"]) == 1000 and len(hub.api(f"metrics?after={page['next']}")["rows"]) == 500
    path.unlink()
    assert hub.api("metrics") == {"rows": [], "next": 0}


def test_events_name_the_actors_that_joined(hub: HubProcess) -> None:
    joined = [row for row in hub.api("events")["rows"] if row["kind"] == "actor_joined"]
    assert (joined[0]["name"], joined[0]["by"], joined[0]["again"]) == ("left", "hub", False)


@pytest.mark.parametrize("path", ["metrics", "events"])
@pytest.mark.parametrize("after", ["10000000000000000000000", "-1", "x", "1.5", "1e3", "9" * 5000, "%00"])
def test_a_byte_that_no_file_has_is_answered_in_words(hub: HubProcess, path: str, after: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        hub.api(f"{path}?after={after}")
    with caught.value as answer:
        assert answer.code == 400 and "whole number" in answer.read().decode()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 9000,
        b'{"command": "pause", "detail": ' + b'{"a":' * 1500 + b"1" + b"}" * 1501,
        b'{"command": "label", "detail": {"success": 1e999}}',
        b'{"command": "label", "detail": {"success": ' + b"9" * 5000 + b"}}",
        b'{"command": "label", "detail": {"holder": "\\ud800"}}',
        b'{"command": "label", "to": "\\udfff"}',
        b'{"command": ["pause"]}',
        b'"pause"',
        b"[[]]",
        b"null",
        b"\xff",
        b"",
    ],
)
def test_a_body_that_is_no_command_is_answered_in_words(hub: HubProcess, body: bytes) -> None:
    request = urllib.request.Request(
        f"http://{hub.address}/api/command", data=body, headers={"Authorization": f"Bearer {hub.token}", "Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    with caught.value as answer:
        assert answer.code == 422 and "not a command" in answer.read().decode()


@pytest.mark.parametrize("query", ["metrics?after=x", "nothing"])
def test_a_bad_request_is_a_client_error(hub: HubProcess, query: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        hub.api(query)
    with caught.value as answer:
        assert 400 <= answer.code < 500


@pytest.mark.parametrize("path", ["status", "clocks", "actors"])
def test_the_documentation_shows_the_real_answers(hub: HubProcess, path: str) -> None:
    """The example JSON of the documentation has the fields that the hub gives, and values of the same kinds."""
    text = PAGE.read_text()
    example = re.search(rf"`GET /api/{path}`.*?```json\n(.*?)```", text, re.DOTALL)
    assert example is not None, f"no example of /api/{path}"
    _same_shape(json.loads(example.group(1)), hub.api(path), path)


def _same_shape(shown: object, answered: object, where: str) -> None:
    if isinstance(shown, dict):
        assert isinstance(answered, dict) and list(shown) == list(answered), where
        for name in shown:
            _same_shape(shown[name], answered[name], f"{where}.{name}")
    elif isinstance(shown, list):
        assert isinstance(answered, list) and shown and answered, where
        _same_shape(shown[0], answered[0], where)
    else:
        assert isinstance(answered, (int, float)) == isinstance(shown, (int, float)), where
