"""A run whose rewards a rule gives: its value is on the page, and a person takes a wrong reward back."""

from pathlib import Path
from typing import Any

from tandem.runs.folder import RunFolder
from tandem.runs.lines import read_rows
from tests.dashboard.page_samples import SMALL, Started, Visitor
from tests.waiting import wait_for

MOVES = "name = 'moves'\nhold_s = 0.5\n[[stage]]\nname = 'moved'\nconditions = ['tcp_velocity[2] > -100']\n"


def test_the_value_of_the_reward_is_shown_and_a_wrong_one_is_taken_back(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "moves.toml").write_text(MOVES)
    run = RunFolder(tmp_path / "run")
    started = Started(
        tmp_path, "train", "reach", "--run", str(run.path), "--reward-source", f"conditions:{tmp_path / 'moves.toml'}", *SMALL
    )
    try:
        context = browser.new_context(viewport={"width": 1366, "height": 768})
        visitor = Visitor(context, started.link())
        visitor.until("tandem.view && tandem.rewarded !== undefined", 60)
        assert "moved 1.00" in visitor.tab.inner_text("#stage-foot") and visitor.tab.is_visible("#wrong")
        meant = visitor.tab.evaluate("tandem.rewarded")
        visitor.tab.click("#wrong")
        wait_for(lambda: list(read_rows(run.episodes_file)), what="the word of the person")
        [said, *_] = read_rows(run.episodes_file)
        assert (said["kept"], said["success"]) == (False, False) and said["episode"] >= meant
        assert run.spec.reward.startswith("conditions:moves:") and run.rule() == MOVES.encode()
        assert not visitor.errors
        context.close()
    finally:
        started.stop()
