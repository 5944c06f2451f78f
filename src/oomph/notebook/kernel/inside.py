"""The IPython extension of a supervised kernel: records which cell runs, and answers what a dead kernel left open."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from oomph.notebook.kernel.answer import DeathAnswer, tell_under, wait_for_subscriber
from oomph.notebook.kernel.death import Death, take
from oomph.notebook.kernel.launcher import VARIABLE
from oomph.notebook.kernel.record import ExecuteRequest, KernelRecord, RecordFile
from oomph.terminal.console import say

_HASH_BYTES = 8


def load_ipython_extension(shell: Any) -> None:
    """Start recording in a supervised kernel. An error here must not reach the user's cells."""
    handed = _handed_over()
    if handed is None:
        return
    try:
        _begin(shell, Path(handed["root"]), handed.get("death", ""))
    except Exception as error:
        say(f"{type(error).__name__}: {error}; if this kernel dies, its cells will not say why")


def _handed_over() -> dict[str, Any] | None:
    """Return what the supervisor has handed over, or None if it did not start this process itself."""
    text = os.environ.get(VARIABLE)
    try:
        found: dict[str, Any] = json.loads(text) if text else {}
        return found if found.get("supervisor") == os.getppid() and isinstance(found["root"], str) else None
    except (ValueError, AttributeError, KeyError, TypeError):
        return None


def _begin(shell: Any, root: Path, unwritten: str) -> None:
    kernel, death = shell.kernel, Death.from_json(unwritten.encode()) if unwritten else take(root)
    if death is not None:
        _count_from(shell, death.count)
        wait_for_subscriber(getattr(kernel.parent, "iopub_port", 0))
    recorder, answer = Recorder(shell, RecordFile(root)), None if death is None else DeathAnswer(kernel, death)
    if answer is None:
        recorder.attach(lambda message: _tell_of_both(kernel, root, message))
    else:
        recorder.attach(None if answer.is_seen else lambda message: tell_under(kernel, answer.lines, message))
    from tornado.ioloop import IOLoop

    # Only once the kernel receives requests: a `starting` after the answer's `idle` would stick in the client.
    IOLoop.current().add_callback(recorder.begin)
    if answer is not None:
        IOLoop.current().add_callback(answer.begin)


def _count_from(shell: Any, count: int) -> None:
    """Number the next cell, and pad IPython's history, in which a cell's number is its place: In[7] is cell [7]."""
    shell.execution_count = count
    for history in (shell.history_manager.input_hist_parsed, shell.history_manager.input_hist_raw):
        history += [""] * (count - len(history))


def _tell_of_both(kernel: Any, root: Path, message: Any) -> None:
    """Say under the first cell how the last kernel died, if it was killed together with its supervisor."""
    from oomph.notebook.evidence.last_words import told  # late: it would delay the kernel's start

    lines = told(root)
    if lines:
        tell_under(kernel, lines, message)


class Recorder:
    """Keeps the record of the kernel: what runs, and what waits behind it.

    Args:
        shell: IPython's shell.
        file: where the record is kept.
    """

    def __init__(self, shell: Any, file: RecordFile) -> None:
        self._shell, self._kernel, self._file = shell, shell.kernel, file
        self._lock = threading.Lock()  # requests arrive in another thread
        count = shell.execution_count
        self._record = KernelRecord(os.getpid(), first=count, count=count)

    def attach(self, before_first: Callable[[Any], None] | None) -> None:
        """Wrap the kernel's handlers. `before_first` is called with the first visible request."""
        kernel = self._kernel
        self._before_first = before_first
        self._execute = kernel.shell_handlers["execute_request"]
        kernel.shell_handlers["execute_request"] = self._executing
        if getattr(kernel, "shell_channel_thread", None) is not None:  # from ipykernel 7 on
            self._receive, kernel.shell_channel_thread_main = kernel.shell_channel_thread_main, self._received
            self._set_parent, kernel.set_parent = kernel.set_parent, self._taken

    def begin(self) -> None:
        """Write the first record, which tells the supervisor that the kernel is ready."""
        self._change()

    async def _executing(self, stream: Any, identities: Any, message: Any) -> None:
        """Record the request while the kernel executes it."""
        self._begin_cell(identities, message)
        try:
            result = self._execute(stream, identities, message)
            if isinstance(result, Awaitable):
                await result
        finally:
            self._end_cell()

    def _begin_cell(self, identities: Any, message: Any) -> None:
        with contextlib.suppress(Exception, KeyboardInterrupt):  # the cell must run and be answered in any case
            content = message["content"]
            visible = not content.get("silent", False)
            if visible and self._before_first is not None:
                tell, self._before_first = self._before_first, None
                tell(message)
            count = self._shell.execution_count
            numbered = visible and content.get("store_history", True)
            self._change(running=_request(identities, message, count if numbered else 0), count=count)

    def _end_cell(self) -> None:
        with contextlib.suppress(Exception, KeyboardInterrupt):
            self._change(running=None, count=self._shell.execution_count, done=self._record.done + 1)

    async def _received(self, message: Any) -> None:
        """Record a request on arrival, in the thread that receives it."""
        with contextlib.suppress(Exception):  # the kernel itself will complain about a damaged message
            session = self._kernel.session
            identities, frames = session.feed_identities(message, copy=False)
            peeked = session.deserialize(frames, content=False, copy=False)
            if peeked["header"]["msg_type"] == "execute_request":
                self._change(arrived=_request(identities, peeked))
        await self._receive(message)

    def _taken(self, identities: Any, parent: Any, channel: str = "shell") -> Any:
        """Take a request off the queue: the kernel now executes or aborts it."""
        taken = parent.get("header", {}).get("msg_id") if channel == "shell" else None
        queued = self._record.queued
        if any(each.header.get("msg_id") == taken for each in queued):
            self._change(taken=taken)
        return self._set_parent(identities, parent, channel)

    def _change(self, arrived: ExecuteRequest | None = None, taken: str | None = None, **changes: Any) -> None:
        """Change the record and write it. A full disk must not disturb the cell."""
        with self._lock:
            queued = tuple(each for each in self._record.queued if taken is None or each.header.get("msg_id") != taken)
            queued = queued if arrived is None else (*queued, arrived)
            self._record = replace(self._record, queued=queued, **changes)
            with contextlib.suppress(OSError):
                self._file.write(self._record)


def _request(identities: Any, message: Any, count: int = 0) -> ExecuteRequest:
    code = message["content"].get("code", "") if isinstance(message.get("content"), dict) else ""
    return ExecuteRequest(
        header=dict(message["header"]),
        identities=tuple(bytes(each).hex() for each in identities),
        cell_id=str((message.get("metadata") or {}).get("cellId", "")) if count else "",
        code_hash=hashlib.blake2b(code.encode(errors="replace"), digest_size=_HASH_BYTES).hexdigest() if code else "",
        count=count,
    )
