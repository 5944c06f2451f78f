"""Only runs that are over are removed, and of them only what oomph wrote, whatever was planted in their folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.run.directory.listed_run import ListedRun, described, disk_bytes
from oomph.run.directory.pruning import PruneChoice, PruneRule, choose, remove
from oomph.run.directory.run_directory import RunDirectory, RunRecord

DAY = 86400.0
NOW = 100 * DAY


def made(path: Path, status: str = "finished", saved: bool = False) -> Path:
    run = RunDirectory.create(path, RunRecord(("a.py",), "python", "/", ""))
    run.update(status=status)
    run.close()
    (path / "journal").mkdir()
    (path / "journal/1-0-supervisor.jsonl").write_text("x" * 10_000)
    if saved:
        (path / "checkpoints/step-1-fit0-epoch0-step1").mkdir(parents=True)
    return path


def seen(name: str, days: float, state: str = "finished", **rest: bool) -> ListedRun:
    status = "running" if state in ("going-on", "unfinished") else state
    record = RunRecord(("a.py",), "python", "/", "", status=status)
    return ListedRun(Path(name), record, NOW - days * DAY, state, **rest)


def names(choice: PruneChoice) -> tuple[str, dict[str, str]]:
    return "".join(str(run.path) for run in choice.to_remove), {str(run.path): why for run, why in choice.kept}


# -- the choice ------------------------------------------------------------------------------------------------------


def test_only_runs_that_are_over_are_chosen() -> None:
    runs = [
        seen("a", 90),
        seen("b", 91, "going-on"),
        seen("c", 92, "unfinished", is_resumable=True),
        seen("d", 93, "failed"),
        seen("e", 94, "gave-up", is_resumable=True),
        ListedRun(Path("f"), None, 0.0, problem="run.json is damaged"),
        seen("g", 95, "forged"),
    ]
    kept = {"b": "running", "c": "resumable", "e": "resumable", "f": "unreadable", "g": "unreadable"}
    assert names(choose(runs, PruneRule(), NOW)) == ("ad", kept)


@pytest.mark.parametrize(
    ("rule", "removed"),
    [
        (PruneRule(older_than_seconds=30 * DAY), "de"),
        (PruneRule(keep=3), "e"),
        (PruneRule(keep=1, older_than_seconds=7 * DAY), "cde"),
        (PruneRule(keep=9), ""),
    ],
)
def test_old_runs_are_chosen_and_the_newest_kept(rule: PruneRule, removed: str) -> None:
    runs = [seen("a", 1), seen("b", 2, "stopped", is_resumable=True), seen("c", 10), seen("d", 40), seen("e", 50)]
    assert names(choose(runs, rule, NOW))[0] == removed


@pytest.mark.parametrize(
    ("status", "saved", "is_resumable"),
    [
        ("finished", False, False),
        ("finished", True, False),  # after NaN, the last finite checkpoint is kept
        ("failed", False, False),
        ("failed", True, True),
        ("gave-up", True, True),
        ("running", False, True),
        ("preempted", False, True),
        ("kept", True, True),
    ],
)
def test_run_is_resumable_unless_it_has_ended_for_good(
    tmp_path: Path, status: str, saved: bool, is_resumable: bool
) -> None:
    assert described(made(tmp_path / "r", status, saved)).is_resumable is is_resumable


# -- the removal -----------------------------------------------------------------------------------------------------


def test_run_is_removed_whole_and_the_space_reported(tmp_path: Path) -> None:
    run = made(tmp_path / "r", saved=True)
    (run / "checkpoints.1").mkdir()
    (run / "journal/9-0-supervisor.jsonl.refused").touch()
    before = disk_bytes(run)
    planned = remove(run, dry_run=True)
    assert disk_bytes(run) == before
    assert remove(run) == planned
    assert not run.exists()
    assert 12_000 <= planned.freed_bytes <= before


def test_traces_count_to_the_size_of_a_run_and_are_removed_with_it(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    before = disk_bytes(run)
    trace = run / "profile/plugins/profile/2026_11_30_08_01_40/vm.xplane.pb"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(b"x" * 100_000)
    assert disk_bytes(run) - before >= 100_000
    assert remove(run).left == ()
    assert not run.exists()


def test_files_that_are_not_oomph_s_stay(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    (run / "model.keras").write_text("mine")
    (run / "plots").mkdir()
    assert remove(run, dry_run=True).left == remove(run).left == ("model.keras", "plots")
    assert sorted(each.name for each in run.iterdir()) == ["model.keras", "plots"]


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    run, elsewhere = made(tmp_path / "r"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    (run / "checkpoints").symlink_to(elsewhere)
    (run / "journal/link").symlink_to(elsewhere / "mine")
    (run / "stderr").mkdir()
    os.mkfifo(run / "stderr/1.log")
    os.link(elsewhere / "mine", run / "summary.json")
    assert remove(run).problem == ""
    assert not run.exists()
    assert (elsewhere / "mine").read_text() == "mine"
    (tmp_path / "linked").symlink_to(elsewhere)
    assert remove(tmp_path / "linked").problem == "it is a link"
    assert (elsewhere / "mine").exists()


def test_run_in_use_is_not_touched(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "r", RunRecord(("a.py",), "python", "/", ""))
    run.update(status="finished")  # the script still has the lock: it is alive
    assert remove(run.path, dry_run=True).problem == remove(run.path).problem == "it is in use"
    assert (run.path / "run.json").exists()
    run.close()
    assert remove(run.path).problem == ""


def test_planted_depth_ends_the_removal_and_the_run_stays_in_the_list(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    deep = run / "stderr"
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert "nested" in remove(run).problem
    assert described(run).state == "finished"


def test_lock_that_is_a_link_is_a_reason_not_to_remove(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    (tmp_path / "mine").write_text("mine")
    (run / "lock").unlink()
    (run / "lock").symlink_to(tmp_path / "mine")
    assert "link" in remove(run).problem
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_run_of_another_user_is_not_removed(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    os.chown(run, 12345, 12345)
    assert remove(run).problem == "it belongs to another user"
    assert (run / "run.json").exists()


def test_space_on_the_disk_is_counted_without_links_and_once(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/big").write_bytes(b"x" * 100_000)
    alone = disk_bytes(tmp_path / "r")
    assert alone >= 100_000
    os.link(tmp_path / "r/big", tmp_path / "r/again")
    (tmp_path / "r/loop").symlink_to(tmp_path)
    with (tmp_path / "r/sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert disk_bytes(tmp_path / "r") - alone < 20_000
