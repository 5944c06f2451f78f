"""Whether a process does anything: real processes that wait, and that work very little."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from oomph.run.hang import watch

SECONDS = 2.0
WAITS = "import threading; lock = threading.Lock(); lock.acquire(); print(flush=True); lock.acquire()"
LITTLE = "import time; print(flush=True)\nwhile True:\n    time.sleep(0.3)\n    sum(range(20_000))"
WAITS_WITH_A_CHILD_THAT_WORKS = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LITTLE!r}]); {WAITS}"
"""A worker of the input pipeline, say."""
READS = (
    "import os, time; print(flush=True); file = os.open('/dev/zero', 0)\n"
    "while True:\n    os.read(file, 1); time.sleep(0.5)"
)


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", request.param], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)
        yield process.pid
        found = watch.activity_of(process.pid)
        for pid in found.pids if found else ():
            subprocess.run(["kill", "-9", str(pid)], timeout=10, check=False)


@pytest.mark.parametrize(
    ("started", "active"),
    [(WAITS, False), (LITTLE, True), (WAITS_WITH_A_CHILD_THAT_WORKS, True), (READS, True)],
    ids=["waits", "little", "child", "reads"],
    indirect=["started"],
)
def test_process_tree_is_idle_only_if_it_does_nothing_at_all(started: int, active: bool) -> None:
    before = watch.activity_of(started)
    time.sleep(SECONDS)
    after = watch.activity_of(started)
    assert before is not None
    assert after is not None
    assert watch.was_active(before, after) is active


def test_ended_process_has_no_sample() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    assert watch.activity_of(process.pid) is None
