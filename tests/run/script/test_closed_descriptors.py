"""Scripts that close every descriptor, as daemons do, and then reuse those numbers for their own files."""

from __future__ import annotations

import errno
import os

import pytest

from oomph.files.own_descriptor import OwnDescriptor
from oomph.journal.events import GpuMemoryBack, GpuMemoryHeld
from oomph.journal.journal import Journal, read_journal
from oomph.protocol.progress import Phase
from oomph.script.pulse import Pulse

SCRIPT = """
    import os, sys, threading, time
    os.closerange(3, 256)
    files = [open(f"own-{{number}}", "wb") for number in range(40)]
    {}
"""
ENDINGS = {
    "an error": "raise ValueError('of the script')",
    "a crash": "os.abort()",
    "a fork": "os.fork() or os._exit(0); os.wait(); raise ValueError('of the script')",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_oomph_never_writes_into_files_that_reuse_its_descriptors(work, ending):
    work.script(SCRIPT.format(ENDINGS[ending]))
    ended = work.run("train.py")
    files = sorted(work.folder.glob("own-*"))
    assert len(files) == 40
    assert {path.read_bytes() for path in files} == {b""}
    assert ended.returncode == (93 if ending == "a crash" else 1)  # a crash is retried once
    if ending == "an error":
        (event,) = [event for event in read_journal(work.run_dir) if event.name == "uncaught-exception"]
        assert event.data["message"] == "of the script"


def test_journal_continues_after_the_script_closes_its_descriptor(tmp_path):
    journal = Journal(tmp_path, 1, "script")
    journal.write(GpuMemoryHeld())
    own = journal._descriptor.fd
    os.close(own)
    theirs = os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT)
    if theirs != own:
        os.dup2(theirs, own)
    journal.write(GpuMemoryBack())
    journal.close()
    assert (tmp_path / "theirs").read_bytes() == b""
    assert [event.name for event in read_journal(tmp_path)] == ["gpu-memory-held", "gpu-memory-back"]
    os.fstat(own)  # the script's own descriptors stay open
    for fd in {own, theirs}:
        os.close(fd)


def test_closed_or_reused_descriptor_is_not_written_to(tmp_path):
    fd = os.open(tmp_path / "ours", os.O_RDWR | os.O_CREAT)
    ours = OwnDescriptor(fd)
    assert ours.is_ours
    assert ours.write(b"one") == 3
    os.close(fd)
    assert not ours.is_ours
    with pytest.raises(OSError, match="closed by the script") as raised:
        ours.write(b"two")
    assert raised.value.errno == errno.EBADF
    ours.close()
    assert (tmp_path / "ours").read_bytes() == b"one"


def test_pulse_stops_silently_once_its_descriptor_is_closed():
    reading, writing = os.pipe()
    lost = []
    pulse = Pulse(writing, lambda: lost.append(True))
    pulse.beat(Phase.STEP)
    assert os.read(reading, 1000)
    theirs_out, theirs = os.pipe()
    os.dup2(theirs, writing)  # closes ours first
    for phase in (Phase.CHECKPOINT, Phase.STEP):
        pulse.beat(phase)
    assert (lost, pulse.is_heard) == ([True], False)
    os.set_blocking(theirs_out, False)
    with pytest.raises(BlockingIOError):
        os.read(theirs_out, 1)
    for fd in {reading, writing, theirs_out, theirs}:
        os.close(fd)
