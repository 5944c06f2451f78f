"""The caller's handle on the process of an isolated function: its streams, its time limit and its cleanup."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import oomph
from oomph.process.child import Child
from oomph.process.isolation.descendants import kill, strays
from oomph.process.process_group import why_it_stays
from oomph.process.stderr import Tail

if TYPE_CHECKING:
    import psutil

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from oomph.process.isolation.isolated import main; main()"
)
_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_STACK_SECONDS = 0.5
_GRACE_SECONDS = 5.0
_KILLED_SECONDS = 10.0
_MOST_LAST_CHUNKS = 64
"""The most chunks of last output to read: more than a pipe holds, as a process in another session may keep writing."""


class IsolatedProcess:
    """The process and its three streams, served by one loop without threads."""

    def __init__(self, call: bytes, environ: Mapping[str, str]) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        self._tail, self.answer, self.timed_out = Tail(None), bytearray(), False
        self._is_late = False
        """True if the time is up, so that further answers are ignored."""
        path = [str(Path(oomph.__file__).parents[1]), *sys.path]
        try:
            self._child = Child(
                [sys.executable, "-c", _CHILD, json.dumps(path), str(theirs_in), str(theirs_out), str(os.getpid())],
                environ,
                stdout=None,
                stderr=theirs_err,
                inherited=(theirs_in, theirs_out),
                reap_seconds=_KILLED_SECONDS,
            )
        except BaseException:
            _close(ours_in, ours_out, ours_err)
            raise
        finally:
            _close(theirs_in, theirs_out, theirs_err)
        self._selector = selectors.DefaultSelector()
        self._watch(ours_in, selectors.EVENT_WRITE, self._feed)
        self._watch(ours_out, selectors.EVENT_READ, self._hear)
        self._watch(ours_err, selectors.EVENT_READ, self._pass_on)
        self._left = memoryview(call)
        self.returncode, self.left_behind = 0, ""

    def wait(self, until: float | None) -> None:
        """Wait until the process has ended or its time is up."""
        while self._child.returncode is None:
            self._attend(_POLL_SECONDS)
            if until is not None and time.monotonic() >= until:
                self.timed_out = True
                self._child.send(signal.SIGUSR1)  # it writes its stacks; see isolated.py
                self._attend_for(_STACK_SECONDS)
                self._is_late = True
                return

    def end(self) -> None:
        """End everything: SIGTERM, a grace period, SIGKILL to the group and its strays; then read the last output."""
        left: list[psutil.Process] = []
        if self._child.returncode is None:
            left = strays(self._child.pid)  # only while it lives: afterwards their origin is unknown
            self._child.send(signal.SIGTERM)
            self._attend_for(_GRACE_SECONDS)
        if self._child.returncode is None:
            left += strays(self._child.pid)
        self._child.end()
        kill(left)
        self.returncode = self._child.returncode or 0
        self.left_behind = why_it_stays(self._child.pid) if self._child.left_behind else ""
        for _ in range(_MOST_LAST_CHUNKS):
            if not self._attend(0):
                break
        for key in list(self._selector.get_map().values()):
            self._close(key.fd)
        self._selector.close()

    @property
    def stderr(self) -> bytes:
        """The end of what the process wrote to stderr."""
        return self._tail.data

    def _attend_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._child.returncode is None and time.monotonic() < until:
            self._attend(_POLL_SECONDS)

    def _attend(self, seconds: float) -> bool:
        """Serve the streams that are ready; returns whether there were any."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data(key.fd)
        return bool(ready)

    def _watch(self, fd: int, events: int, carry: Callable[[int], None]) -> None:
        os.set_blocking(fd, False)
        self._selector.register(fd, events, carry)

    def _feed(self, fd: int) -> None:
        try:
            self._left = self._left[os.write(fd, self._left[:_CHUNK]) :]
        except OSError:
            self._left = self._left[:0]  # it ended without reading everything
        if not self._left:
            self._close(fd)

    def _hear(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not self._is_late:
            self.answer += data
        if not data:
            self._close(fd)

    def _pass_on(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        self._tail.feed(data)
        if not data:
            self._close(fd)
            return
        try:
            os.write(2, data)
        except OSError:
            pass  # the caller has no stderr

    def _close(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
