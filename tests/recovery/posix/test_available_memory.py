"""How much memory of the host is left."""

from __future__ import annotations

import pytest

from oomph.recovery.posix.available_memory import available_bytes, limit_bytes


@pytest.fixture
def root(tmp_path):
    def write(**files: str):
        names = {
            "meminfo": "proc/meminfo",
            "limit": "sys/fs/cgroup/memory.max",
            "used": "sys/fs/cgroup/memory.current",
            "limit1": "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "used1": "sys/fs/cgroup/memory/memory.usage_in_bytes",
        }
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
    ],
)
def test_the_least_of_what_the_machine_and_the_container_have_left(root, files, expected):
    assert available_bytes(root(**files)) == expected


def test_this_machine_has_some():
    assert (available_bytes() or 0) > 1 << 20


def test_the_limit_of_a_container_counts_whatever_is_used_of_it(tmp_path):
    assert limit_bytes(tmp_path) is None
    folder = tmp_path / "sys/fs/cgroup"
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text("max\n")
    assert limit_bytes(tmp_path) is None
    (folder / "memory.max").write_text("4096\n")
    (folder / "memory.current").write_text("4000\n")
    assert limit_bytes(tmp_path) == 4096
