"""Host metrics from a fake /proc and cgroup, and from this machine's real ones."""

from __future__ import annotations

import pytest

from oomph.monitor.host import Host

MEMINFO = "MemTotal: 16000000 kB\nMemFree: 1000 kB\nMemAvailable: 6000000 kB\nSwapTotal: 900 kB\nSwapFree: 400 kB\n"


@pytest.fixture(name="root")
def _root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    (tmp_path / "proc/stat").write_text("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n")
    return tmp_path


def cgroup(root, line: str, folder: str, **files: str) -> None:
    (root / "proc/self/cgroup").write_text(f"{line}\n")
    (root / "sys/fs/cgroup" / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / "sys/fs/cgroup" / folder / f"memory.{name}").write_text(f"{text}\n")


def test_used_memory_is_total_minus_available_memory(root):
    values = Host(root).read(0)
    assert values == {
        "memory_used_bytes": 10_000_000 * 1024,
        "memory_total_bytes": 16_000_000 * 1024,
        "swap_used_bytes": 500 * 1024,
    }


def test_cpu_ratio_since_the_last_reading_excludes_disk_waits(root):
    host = Host(root)
    assert "cpu_ratio" not in host.read(0)
    (root / "proc/stat").write_text("cpu  120 0 60 860 60 0 0 0 99 99\ncpu0 1 2 3\n")
    assert host.read(1)["cpu_ratio"] == pytest.approx(0.3)
    assert "cpu_ratio" not in host.read(2)  # no time has passed


def test_swap_is_read_every_ten_seconds(root):
    host = Host(root)
    assert [second for second in range(25) if "swap_used_bytes" in host.read(second)] == [0, 10, 20]


def test_tightest_cgroup_limit_applies_without_counting_file_cache(root):
    cgroup(root, "0::/job/step", "job", max="4000000000", current="3000000000", stat="anon 1\ninactive_file 500000000")
    cgroup(root, "0::/job/step", "job/step", max="max", current="2000000000")
    values = Host(root).read(0)
    assert (values["memory_total_bytes"], values["memory_used_bytes"]) == (4_000_000_000, 2_500_000_000)


def test_memory_usage_is_read_when_the_cgroup_appears_as_root(root):
    cgroup(root, "0::/docker/1234", "", max="4000000000", current="1000000000")
    assert Host(root).read(0)["memory_used_bytes"] == 1_000_000_000


def test_cgroup_version_1_limit_is_read(root):
    names = {"limit_in_bytes": "4000000000", "usage_in_bytes": "3000000000", "stat": "total_inactive_file 1000000000"}
    cgroup(root, "7:memory:/job", "memory/job", **names)
    assert Host(root).read(0)["memory_used_bytes"] == 2_000_000_000


def test_limit_above_the_machine_memory_is_ignored(root):
    cgroup(root, "7:memory:/", "memory", limit_in_bytes="9223372036854771712", usage_in_bytes="5")
    assert Host(root).read(0)["memory_total_bytes"] == 16_000_000 * 1024


def test_memory_limit_without_a_usage_value_is_ignored(root):
    cgroup(root, "0::/job", "job", max="4000000000")
    assert Host(root).read(0)["memory_total_bytes"] == 16_000_000 * 1024


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu a b c d e f\n", "\0\0"])
def test_malformed_proc_files_yield_no_values(root, text):
    (root / "proc/stat").write_text(text)
    (root / "proc/meminfo").write_text(text)
    host = Host(root)
    assert host.read(0) == {}
    assert host.read(1) == {}


def test_missing_proc_yields_no_values(tmp_path):
    assert Host(tmp_path).read(0) == {}


def test_real_machine_does_not_use_more_memory_than_it_has():
    values = Host().read(0)
    assert 0 < values["memory_used_bytes"] <= values["memory_total_bytes"]
