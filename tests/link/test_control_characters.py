"""No text from outside controls a terminal or forges a line: not the name of an actor, not what a file of a run says."""

import io
from pathlib import Path

from link_samples import HubProcess, client, make_run
from rich.console import Console

from tandem.doctor.command import doctor
from tandem.programs.terminal import say
from tandem.runs.display import Display
from tandem.runs.folder import RunFolder
from tandem.runs.printable import printable
from tests.waiting import wait_for

EVIL = "\x1b[2J\x1b[31mleft\n12:00:00 [LEARNER] all is well\r\x9b1m\u202e"


def test_only_what_can_be_shown_is_left() -> None:
    assert printable("gear näh 齿轮 [LEARNER] :smile:") == "gear näh 齿轮 [LEARNER] :smile:"
    safe = printable(EVIL)
    assert safe.isprintable() and len(safe) == len(EVIL) and "left" in safe
    assert printable("one\ntwo\x1b", lines=True) == "one\ntwo\N{REPLACEMENT CHARACTER}"


def test_the_name_of_an_actor_reaches_neither_log_nor_page_nor_doctor_as_it_is(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with HubProcess(run) as hub:
        actor = client(hub, tmp_path / "spool", name=EVIL)
        actor.connect()
        [seen] = hub.api("actors")
        assert seen["name"] == printable(EVIL) and seen["name"].isprintable()
        actor.close()
        wait_for(lambda: any(event["kind"] == "actor_left" for event in RunFolder(run).events()), what="the actor's end")
    names = [str(event.get("name", event.get("actor", ""))) for event in RunFolder(run).events() if event["kind"].startswith("actor_")]
    assert names and all(name.isprintable() for name in names)


def test_the_log_of_a_run_has_no_forged_line(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.log_line(f"[ACTOR] '{EVIL}' has taken control")
    run.log_line("[LEARNER] the next line")
    first, second, third = run.log_file.read_text().splitlines()
    assert "\x1b" not in first + second and second.startswith("         12:00:00") and third.endswith("the next line")


def test_a_terminal_gets_no_control_characters(capsys) -> None:
    say(f"run {EVIL}")
    shown = io.StringIO()
    Display("lines", Console(file=shown)).say(f"the actor {EVIL} failed")
    for text in (capsys.readouterr().out, shown.getvalue()):
        assert "left" in text and not any(each in text for each in "\x1b\x9b\r\u202e")


def test_the_doctor_shows_the_files_of_a_run_without_their_control_characters(tmp_path: Path) -> None:
    run = RunFolder.open(make_run(tmp_path / "run"))
    run.event("launched", parts=["hub"])
    run.event("part_failed", part=EVIL, how="ended", error=EVIL, environment=True)
    lines: list[str] = []
    doctor([str(run.path)], lines.append)
    assert any("left" in line for line in lines) and all(line.isprintable() for line in lines)
