"""The script's processes: who owns them, their total usage, and that the bytes read by exited ones still count."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from oomph.monitor import host
from oomph.monitor.host import ProcessTree

PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


class Proc:
    """A fake /proc."""

    def __init__(self, folder) -> None:
        self.folder = folder

    def put(self, pid: int, parent: int, ticks: int = 0, pages: int = 0, read: int = 0, state: str = "S") -> None:
        fields = [state, str(parent), *["0"] * 9, str(ticks), "0", *["0"] * 8, str(pages), "0"]
        (self.folder / str(pid)).mkdir(exist_ok=True)
        (self.folder / str(pid) / "stat").write_text(f"{pid} (a) b (c) {' '.join(fields)}\n")
        (self.folder / str(pid) / "io").write_text(f"rchar: 9\nread_bytes: {read}\nwrite_bytes: 3\n")


@pytest.fixture(name="proc")
def _proc(tmp_path) -> Proc:
    proc = Proc(tmp_path)
    proc.put(1, 0)
    proc.put(10, 1)  # the supervisor
    proc.put(20, 10, ticks=100, pages=50, read=1000)  # the script
    proc.put(21, 20, ticks=10, pages=5, read=200)
    proc.put(22, 21)
    proc.put(os.getpid(), 10, pages=999)  # the sampler
    proc.put(30, 1, pages=999)
    return proc


def test_process_tree_contains_the_script_and_its_descendants(proc):
    tree = ProcessTree(20, 10, proc.folder)
    assert tree.read(0) == {"resident_bytes": 55 * PAGE, "read_bytes_total": 1200}
    assert tree.pids == {20, 21, 22}


@pytest.mark.parametrize("script", [0, 12345])
def test_parents_children_are_used_if_the_script_is_unknown_or_has_exited(proc, script):
    tree = ProcessTree(script, 10, proc.folder)
    tree.read(0)
    assert tree.pids == {20, 21, 22}


def test_sampler_is_not_counted_when_the_script_itself_is_the_parent(proc):
    proc.put(os.getpid(), 20, pages=999)
    tree = ProcessTree(20, 20, proc.folder)
    assert tree.read(0)["resident_bytes"] == 55 * PAGE


def test_used_cores_are_computed_from_cpu_time_since_the_last_reading(proc):
    tree = ProcessTree(20, 10, proc.folder)
    assert "cpu_cores" not in tree.read(0)
    proc.put(20, 10, ticks=100 + 3 * TICKS)
    proc.put(21, 20, ticks=10 + TICKS)
    assert tree.read(2)["cpu_cores"] == 2


def test_new_processes_are_found_within_ten_seconds_without_a_cpu_burst(proc):
    tree = ProcessTree(20, 10, proc.folder)
    tree.read(0)
    proc.put(23, 22, ticks=1_000_000)
    assert {second: 23 in tree.pids for second in range(1, 12) if tree.read(second)} == {
        second: second >= 10 for second in range(1, 12)
    }
    assert tree.read(12)["cpu_cores"] == 0


def test_new_descendant_is_owned_but_other_processes_are_not(proc):
    tree = ProcessTree(20, 10, proc.folder)
    tree.read(0)
    proc.put(23, 22)
    proc.put(24, 23)
    proc.put(31, 30)
    assert {pid for pid in (1, 10, 20, 22, 23, 24, 30, 31, 999) if tree.owns(pid)} == {20, 22, 23, 24}


def test_bytes_read_by_an_exited_process_remain_in_the_total(proc):
    tree = ProcessTree(20, 10, proc.folder)
    tree.read(0)
    proc.put(21, 20, state="Z", read=200)
    assert "read_bytes_total" not in tree.read(1)
    assert tree.pids == {20, 22}
    assert tree.read(10)["read_bytes_total"] == 1200


def test_parent_without_children_yields_no_values(proc):
    assert ProcessTree(0, 30, proc.folder).read(0) == {}


def test_cyclic_parents_do_not_hang_the_process_tree(proc):
    proc.put(20, 22)
    tree = ProcessTree(20, 10, proc.folder)
    tree.read(0)
    assert tree.pids == {20, 21, 22}


def test_real_child_process_is_found_with_its_memory():
    words = "print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-IS", "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()  # running
        tree = ProcessTree(0, os.getpid())
        values = tree.read(time.monotonic())
        assert child.pid in tree.pids
        assert os.getpid() not in tree.pids
        assert values["resident_bytes"] > 1 << 20
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def share(proc: Proc, pid: int, resident: int, own: int) -> None:
    (proc.folder / str(pid) / "smaps_rollup").write_text(f"0-1 ---p [rollup]\nRss: {resident} kB\nPss: {own} kB\n")


def test_pages_that_several_processes_share_count_once(proc):
    kilobytes = PAGE // 1024
    share(proc, 20, 50 * kilobytes, 45 * kilobytes)
    share(proc, 21, 5 * kilobytes, 1 * kilobytes)
    tree = ProcessTree(20, 10, proc.folder)
    assert tree.read(0)["resident_bytes"] == 46 * PAGE
    assert [(each.pid, each.memory_bytes, each.is_script) for each in tree.shares if each.memory_bytes] == [
        (20, 45 * PAGE, True),
        (21, 1 * PAGE, False),
    ]
    proc.put(21, 20, pages=15)
    assert tree.read(1)["resident_bytes"] == 56 * PAGE
    assert tree.shares == ()


def test_growth_of_a_child_is_seen_although_its_share_is_rarely_read(proc, monkeypatch):
    monkeypatch.setattr(host, "_SHARES_COST", 1e9)
    tree = ProcessTree(20, 10, proc.folder)
    seen = []
    for second in range(0, 40, 10):
        proc.put(21, 20, pages=5 + second)
        tree.read(second)
        seen.append({each.pid: each.memory_bytes // PAGE for each in tree.shares}[21])
    assert seen == [5, 15, 25, 35]


def test_new_fork_counts_nothing_until_its_share_is_read(proc, monkeypatch):
    monkeypatch.setattr(host, "_SHARES_COST", 1e9)
    tree = ProcessTree(20, 10, proc.folder)
    before = tree.read(0)["resident_bytes"]
    proc.put(23, 20, pages=50)
    assert tree.read(10)["resident_bytes"] == before


FORKS = """
import os, sys, time
table = bytearray(os.urandom(1 << 20) * 64)
for _ in range(5):
    if os.fork() == 0:
        time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""


def test_real_forks_that_share_their_memory_are_not_counted_six_times():
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True) as script:
        try:
            assert script.stdout is not None
            script.stdout.readline()
            tree = ProcessTree(script.pid, os.getpid())
            values = tree.read(0)
            assert len(tree.pids) == 6
            assert 64 << 20 < values["resident_bytes"] < 150 << 20
            assert len(tree.shares) == 6
        finally:
            os.killpg(script.pid, 9)
