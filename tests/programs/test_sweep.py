"""Sweeps: what their files ask for, what is refused, what is continued, and the arithmetic of the table."""

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tandem.errors import ConfigError
from tandem.programs.sweep import Pool, SweepFolder, sweep, why_not_finished
from tandem.programs.sweep_plan import Plan, PlannedRun, read_plan
from tandem.programs.sweep_plots import plot
from tandem.programs.sweep_results import Found, Results, student
from tests.waiting import wait_for

SMALL = """
command = "train"
task = "reach"
seeds = 2
metrics = ["success", "critic/critic_loss"]
best = "lowest critic/critic_loss"

[every]
sync = true
hidden = [8, 8]
batch_size = 8
training_starts = 5
max_steps = 10
log_period = 5
final_episodes = 2
eval_period = 0
"""


def plan_of(folder: Path, text: str) -> Plan:
    file = folder / "asked.toml"
    file.write_text(text)
    return read_plan(file)


def results_of(plan: Plan, figures: dict[str, Sequence[float]], metric: str = "success") -> Results:
    """Finished runs: the value of each seed, by setting."""
    found = [
        Found(PlannedRun(setting, seed), Path("nowhere"), {metric: value})
        for setting, values in figures.items()
        for seed, value in zip(plan.seeds, values, strict=True)
    ]
    return Results(plan, found)


def test_settings_and_a_grid_multiply_and_become_command_lines(tmp_path: Path) -> None:
    text = SMALL + "[settings.plain]\n[settings.wide]\nhidden = [32, 32]\n[grid]\nlearning_rate = [1e-3, 1e-4]\n"
    plan = plan_of(tmp_path, text)
    assert list(plan.settings) == [f"{name}, learning-rate={rate}" for name in ("plain", "wide") for rate in ("0.001", "0.0001")]
    assert len(plan.runs) == 2 * 4 and plan.runs[0].seed == plan.runs[3].seed == 0, "all settings of a seed first"
    wide = plan.arguments(PlannedRun("wide, learning-rate=0.001", 1), Path("there"))
    assert wide[:6] == ["reach", "--run", "there", "--seed", "1", "--quiet"] and "--sync" in wide
    assert wide[wide.index("--hidden") :][:3] == ["--hidden", "32", "32"], "a setting's own value replaces that of all runs"
    assert plan.baseline == "plain, learning-rate=0.001"


def test_a_run_that_is_continued_is_not_asked_for_what_its_folder_holds(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL + 'scripted_demos = 3\nrecipe = "default"\n')
    again = plan.arguments(PlannedRun("plain", 0), Path("there"), resume=True)
    assert again[1:3] == ["--resume", "there"] and "--sync" in again
    assert not {"--scripted-demos", "--recipe", "--run"} & set(again)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("seeds = 2", "seds = 2"), "unknown key 'seds'. Did you mean 'seeds'?"),
        (("seeds = 2", "seeds = []"), "`seeds` must be their number"),
        (('"train"', '"record"'), "`command` must be one of train, ppo, bc, got 'record'"),
        (('"reach"', '"raech"'), "no task 'raech'"),
        (('"reach"', '"somebodys_module:Env-v0"'), "which would run the code of 'somebodys_module'"),
        (("lowest critic/", "smallest critic/"), '`best` must be "highest METRIC" or "lowest METRIC"'),
        (("batch_size = 8", "batch_sise = 8"), "setting 'plain': `tandem train` refuses it: Unrecognized options"),
        (("batch_size = 8", "batch_size = 0"), "setting 'plain': `tandem train` refuses it: batch_size must be at least 1, got 0"),
        (("batch_size = 8", "seed = 8"), "the sweep sets 'seed' of its runs itself"),
        (("[every]", "[grid]"), "the grid needs a list of values for 'sync'"),
    ],
)
def test_a_file_that_cannot_be_swept_is_refused_in_words(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of(tmp_path, SMALL.replace(*change))
    assert says in str(refused.value)
    assert [file.name for file in tmp_path.iterdir()] == ["asked.toml"], "nothing was started"


def test_the_interval_of_a_mean_is_students() -> None:
    # mean 3, std 1.5811, 5 values: 3 ± 2.776 * 1.5811 / sqrt(5) = 3 ± 1.963
    found = student([1, 2, 3, 4, 5])
    assert (found.value, found.low, found.high) == pytest.approx((3, 1.037, 4.963), abs=1e-3)
    assert np.isnan(student([2.0]).low), "one run says nothing about others"
    # Monte Carlo: 95 % of the intervals hold the true mean, also with few seeds and beyond the table
    random = np.random.default_rng(0)
    for n in (3, 40):
        held = [(each := student(list(random.normal(size=n)))).low < 0 < each.high for _ in range(2000)]
        assert np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_settings_are_compared_seed_by_seed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL.replace("seeds = 2", "seeds = 4") + "[settings.base]\n[settings.other]\n")
    hard = np.array([0.0, 0.3, 0.6, 0.9])  # what the seeds make of it, for both settings
    results = results_of(plan, {"base": list(hard), "other": list(hard + np.array([0.1, 0.1, 0.1, 0.08]))})
    mean, difference = results.mean("other", "success"), results.difference("other", "success")
    assert difference is not None and difference.mean.value == pytest.approx(0.095) and (difference.higher, difference.seeds) == (4, 4)
    assert difference.mean.low > 0.05, "certain, although"
    assert mean.low < results.mean("base", "success").value < mean.high, "the means alone cannot tell them apart"
    assert results.difference("base", "success") is None
    assert results.rows()[1][:3] == ["success", "other", "4 of 4"] and results.rows()[1][-1] == "4 of 4 seeds"
    best = results.best()
    assert best is None, "chosen by critic/critic_loss, which no run has"


def test_success_in_every_episode_is_not_called_certain(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL)
    found = [Found(run, Path("nowhere"), {"success": 1.0}, episodes=(50, 50)) for run in plan.runs]
    mean = Results(plan, found).mean("plain", "success")
    assert mean.value == mean.high == 1.0 and mean.low == pytest.approx(0.963, abs=1e-3)  # Wilson, 100 of 100


def test_a_plot_shows_every_seed(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SMALL.replace("seeds = 2", "seeds = 3") + '[settings."a < b"]\n[settings.other]\n')
    drawn = xml.fromstring(plot(results_of(plan, {"a < b": [0.1, 0.5, 0.9], "other": [1.0, 1.0, 1.0]}), "success"))
    heights = [float(circle.get("cy", "")) for circle in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(heights) == 6 and heights[0] > heights[1] > heights[2] > heights[3], "higher values stand higher"
    assert "a < b" in [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]


@dataclass
class Scripted:
    """A handle that ends at its third look."""

    looks: int = 0
    pid: int = 1
    log: str = ""
    stopped: bool = False

    @property
    def code(self) -> int | None:
        self.looks += 1
        return 0 if self.looks > 2 or self.stopped else None

    def ask_to_stop(self) -> None:
        self.stopped = True

    def wait(self, seconds: float) -> None:
        del seconds

    def stop(self, seconds: float) -> None:
        del seconds
        self.stopped = True


@dataclass
class Started:
    handles: dict[PlannedRun, Scripted] = field(default_factory=dict)
    most: int = 0
    ended: list[PlannedRun] = field(default_factory=list)

    def start(self, run: PlannedRun) -> Scripted:
        self.handles[run] = Scripted()
        self.most = max(self.most, len(self.handles) - len(self.ended))
        return self.handles[run]


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_pool_runs_so_many_at_once_and_all_of_them(at_once: int) -> None:
    runs, started = [PlannedRun("plain", seed) for seed in range(7)], Started()
    Pool(started.start, lambda run, handle: started.ended.append(run), at_once).make(runs, lambda: False)
    assert sorted(started.ended, key=lambda run: run.seed) == runs and started.most == at_once


def test_a_pool_that_is_asked_to_stop_stops_what_runs_and_starts_no_more() -> None:
    runs, started = [PlannedRun("plain", seed) for seed in range(7)], Started()
    Pool(started.start, lambda run, handle: started.ended.append(run), 2).make(runs, lambda: len(started.handles) >= 2)
    assert len(started.handles) == 2 == len(started.ended) and all(handle.stopped for handle in started.handles.values())


def test_a_setting_that_changed_is_not_mixed_with_its_old_runs(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "swept")
    plan = plan_of(tmp_path, SMALL)
    with folder.held():
        folder.remember(plan)
        folder.remember(plan_of(tmp_path, SMALL.replace("max_steps = 10", "max_steps = 20")))  # no run was made yet
        folder.run(plan.runs[0]).mkdir(parents=True)
        with pytest.raises(ConfigError, match=r"setting 'plain': max-steps changed since its runs in .* were made"):
            folder.remember(plan)
        with pytest.raises(ConfigError, match="another process makes the runs of"), SweepFolder(folder.path).held():
            pass


def test_a_killed_sweep_goes_on_and_ends_with_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real runs: the first attempt is killed, the rest is made once, the best run is linked and the other one cleared."""
    file, out = tmp_path / "asked.toml", tmp_path / "swept"
    file.write_text(SMALL.replace("seeds = 2", 'seeds = 2\nkeep = "best"'))
    code = f"from pathlib import Path; from tandem.programs.sweep import sweep; sweep(Path({str(file)!r}), Path({str(out)!r}), at_once=1)"
    killed = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    first = out / "runs" / "plain" / "seed_0" / "summary.json"
    wait_for(first.exists, 60, "the first run is finished")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    made = first.stat().st_mtime_ns
    assert wait_for(lambda: _free(out), 60, "its processes have ended")
    assert sweep(file, out, at_once=2, json=True) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert first.stat().st_mtime_ns == made, "a finished run is left as it is"
    losses = [run["critic/critic_loss"] for run in told["runs"]]
    assert len(losses) == 2 and told["settings"]["plain"]["critic/critic_loss"]["mean"] == pytest.approx(np.mean(losses))
    best = int(np.argmin(losses))
    assert told["best"]["seed"] == best and (out / "best").resolve() == (out / "runs" / "plain" / f"seed_{best}").resolve()
    kept = [(out / "runs" / "plain" / f"seed_{seed}" / "journal.db").exists() for seed in (0, 1)]
    assert kept[best] and not kept[1 - best], "of the other one the figures are left"
    xml.fromstring((out / "plots" / "critic_critic_loss.svg").read_text())
    assert "mean [95 %]" in (out / "report.html").read_text()


def test_a_run_that_failed_is_named_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("many lines\ncommand: there is no file nowhere.db\n\n")
    assert "failed (code 2): command: there is no file nowhere.db" in why_not_finished(2, log)
    assert "SIGKILL (out of memory?)" in why_not_finished(-signal.SIGKILL, log)
    assert "interrupted" in why_not_finished(0, log)


def _free(out: Path) -> bool:
    """No process works in the folder any more: none is left that has it on its command line."""
    commands = [entry.read_bytes() for entry in Path("/proc").glob("[0-9]*/cmdline") if entry.exists()]
    return not any(str(out).encode() in command for command in commands)
