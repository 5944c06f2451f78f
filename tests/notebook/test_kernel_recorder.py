"""The record of a kernel follows what it executes, and never gets in the way of a cell."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oomph.notebook.kernel.inside import Recorder
from oomph.notebook.kernel.record import KernelRecord, RecordFile, read_record_of


class Shell:
    """A shell whose kernel executes a request by noting what is on record meanwhile."""

    def __init__(self, root: Path) -> None:
        self.execution_count, self.seen = 3, list[KernelRecord | None]()
        self.root = root
        self.kernel = SimpleNamespace(shell_handlers={"execute_request": self._execute})

    async def _execute(self, stream: Any, identities: Any, message: Any) -> None:
        self.seen.append(read_record_of(self.root, os.getpid()))
        self.execution_count += 1

    def request(self, **content: Any) -> None:
        message = {"header": {"msg_id": "m"}, "metadata": {"cellId": "c"}, "content": content}
        asyncio.run(self.kernel.shell_handlers["execute_request"](None, [b"\x00\xff"], message))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    recorder = Recorder(made, RecordFile(tmp_path))
    recorder.attach(None)
    recorder.begin()
    return made


def test_cell_is_on_record_while_it_runs(shell: Shell, tmp_path: Path) -> None:
    before = read_record_of(tmp_path, os.getpid())
    assert before is not None
    assert (before.first, before.count, before.done, before.running) == (3, 3, 0, None)
    shell.request(code="x = 1")
    (during,) = shell.seen
    assert during is not None
    assert during.running is not None
    assert (during.running.count, during.running.cell_id, during.running.identities) == (3, "c", ("00ff",))
    after = read_record_of(tmp_path, os.getpid())
    assert after is not None
    assert (after.running, after.done, after.count, after.next_count) == (None, 1, 4, 4)


def test_silent_request_gets_no_execution_count(shell: Shell) -> None:
    shell.request(code="x", silent=True)
    (during,) = shell.seen
    assert during is not None
    assert during.running is not None
    assert during.running.count == 0
    assert during.next_count == 3


@pytest.mark.parametrize("content", [{"code": "'\ud800'"}, {}, {"code": None}])
def test_cell_runs_even_if_it_cannot_be_recorded(shell: Shell, content: dict[str, Any]) -> None:
    shell.request(**content)
    assert len(shell.seen) == 1


def test_cell_runs_on_a_full_disk(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("oomph.notebook.kernel.record.os.replace", full)
    shell.request(code="x = 1")
    assert len(shell.seen) == 1
