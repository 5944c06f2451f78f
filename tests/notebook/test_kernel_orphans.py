"""Whichever of server, supervisor and kernel are killed, neither supervisor nor kernel is left behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_kernels import LIMIT, SUPERVISED, environ, lives, wait_until

SERVER = """
import subprocess, sys, time
kernel = subprocess.Popen(sys.argv[1:], start_new_session=True)
print(kernel.pid, flush=True)
while True:
    kernel.poll()
    time.sleep(0.05)
"""
VICTIMS = [
    victims
    for count in (1, 2)
    for victims in itertools.combinations(("server", "supervisor", "kernel"), count)
    if victims != ("kernel",)
]


class Tree:
    """A server that has started a supervised kernel."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        words = [*SUPERVISED[:-1], str(folder / "connection.json")]
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER, *words],
            cwd=folder,
            env=environ(IPYTHONDIR=str(folder / "ipython")),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._server.stdout is not None
        self.pids = {"server": self._server.pid, "supervisor": int(self._server.stdout.readline())}
        self._records = folder / ".oomph" / "notebooks" / "notebook" / "cells" / "current"

    def ready(self) -> None:
        wait_until(self._records.exists, LIMIT, "the kernel does not start")
        self.pids["kernel"] = json.loads(self._records.read_text())["pid"]

    def kill(self, victims: tuple[str, ...]) -> None:
        for victim in victims:
            os.kill(self.pids[victim], signal.SIGKILL)

    def left(self) -> list[str]:
        """Return which of supervisor and kernel are still alive. The server may outlive both."""
        return [name for name, pid in self.pids.items() if name != "server" and lives(pid)]

    def close(self) -> None:
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._server.wait(LIMIT)
        assert self._server.stdout is not None
        self._server.stdout.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_supervisor_and_kernel_are_gone_two_seconds_after_a_kill(tmp_path: Path, rounds: int) -> None:
    for number in range(rounds):
        trees = [(victims, Tree(tmp_path / f"{number}-{'-'.join(victims)}")) for victims in VICTIMS]
        try:
            for _, tree in trees:
                tree.ready()
            for victims, tree in trees:
                tree.kill(victims)
            time.sleep(2.0)
            assert [(victims, tree.left()) for victims, tree in trees if tree.left()] == []
        finally:
            for _, tree in trees:
                tree.close()
