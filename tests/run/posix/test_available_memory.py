"""The host memory that is still available."""

from __future__ import annotations

import pytest

from oomph.process.available_memory import available_bytes, limit_bytes, total_bytes


@pytest.fixture
def root(tmp_path):
    def write(**files: str):
        names = {
            "meminfo": "proc/meminfo",
            "limit": "sys/fs/cgroup/memory.max",
            "used": "sys/fs/cgroup/memory.current",
            "limit1": "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "used1": "sys/fs/cgroup/memory/memory.usage_in_bytes",
            "job_limit": "sys/fs/cgroup/job/memory.max",
            "job_used": "sys/fs/cgroup/job/memory.current",
            "job_stat": "sys/fs/cgroup/job/memory.stat",
            "groups": "proc/self/cgroup",
        }
        files.setdefault("groups", "1:memory:/\n" if "limit1" in files else "0::/job\n")
        for name, text in files.items():
            path = tmp_path / names[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


MEMINFO = "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  500 kB\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"meminfo": MEMINFO}, 500 * 1024),
        ({"meminfo": "MemFree: 3 kB\n"}, None),
        ({"meminfo": MEMINFO, "limit": "max\n", "used": "5\n"}, 500 * 1024),
        ({"meminfo": MEMINFO, "limit": "100000\n", "used": "40000\n"}, 60000),
        ({"meminfo": MEMINFO, "limit": "100\n", "used": "400\n"}, 0),
        ({"limit1": "1000\n", "used1": "200\n"}, 800),
        ({"meminfo": MEMINFO, "job_limit": "1000\n", "job_used": "200\n"}, 800),
        ({"meminfo": MEMINFO, "job_limit": "1000\n", "job_used": "900\n", "job_stat": "inactive_file 800\n"}, 900),
    ],
)
def test_available_memory_is_the_minimum_of_machine_and_container(root, files, expected):
    assert available_bytes(root(**files)) == expected


def test_real_machine_has_available_memory():
    assert (available_bytes() or 0) > 1 << 20


def test_memory_limit_does_not_depend_on_current_usage(root):
    assert limit_bytes(root()) is None
    assert limit_bytes(root(limit="max\n")) is None
    assert limit_bytes(root(limit="4096\n", used="4000\n")) == 4096
    assert limit_bytes(root(job_limit="1024\n")) == 1024


def test_total_memory_is_the_minimum_of_machine_and_limit(root):
    assert total_bytes(root()) is None
    assert total_bytes(root(meminfo=MEMINFO)) == 1000 * 1024
    assert total_bytes(root(job_limit=f"{2000 * 1024}\n")) == 1000 * 1024
    assert total_bytes(root(job_limit="4096\n")) == 4096
