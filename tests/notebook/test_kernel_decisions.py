"""What follows a kernel's death, how it is reported, and what is read back: without a kernel."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from oomph.notebook.kernel.death import Death, leave_behind, take, told
from oomph.notebook.kernel.launcher import launcher_of, leave_working_directory, python_options
from oomph.notebook.kernel.policy import KernelEnd, after_end, deaths_without_progress
from oomph.notebook.kernel.record import ExecuteRequest, KernelRecord, RecordFile, read_record_of
from oomph.protocol.progress import Progress
from oomph.run.policy.decide import Finish, Restart

REQUEST = ExecuteRequest({"msg_id": "a", "session": "s"}, ("00ff",), "cell", "hash", 4)
RECORD = KernelRecord(pid=7, first=2, count=4, done=2, running=REQUEST, queued=(ExecuteRequest({"msg_id": "b"}, ()),))


def end(returncode: int = -9, stopped: bool = False, ready: bool = True, progress: bool = True) -> KernelEnd:
    return KernelEnd(returncode, stopped, ready, progress)


@pytest.mark.parametrize(
    ("ended", "deaths", "code"),
    [
        (end(0), 1, 0),
        (end(75), 1, 75),
        (end(-15, stopped=True), 1, 143),
        (end(-9, stopped=True), 1, 137),
        (end(1, ready=False), 1, 1),
        (end(-11), 3, 139),
    ],
)
def test_kernel_is_not_replaced_after_an_exit_a_stop_or_too_many_deaths(
    ended: KernelEnd, deaths: int, code: int
) -> None:
    assert after_end(ended, deaths) == Finish(code)


@pytest.mark.parametrize(("returncode", "deaths"), [(-9, 1), (-11, 2), (1, 1), (139, 2)])
def test_kernel_is_replaced_after_a_death(returncode: int, deaths: int) -> None:
    assert isinstance(after_end(end(returncode), deaths), Restart)


def test_deaths_are_counted_since_the_last_progress() -> None:
    deaths = 0
    for progress, expected in ((True, 1), (False, 2), (True, 1), (False, 2), (False, 3)):
        deaths = deaths_without_progress(end(progress=progress), deaths)
        assert deaths == expected


def test_diagnosis_gives_the_cause_the_position_and_the_cells_to_run_again() -> None:
    progress = Progress(attempt=1, fit=0, epoch=2, step=5, steps=205, saved=200)
    assert told(-9, "Memory ran out.", progress, RECORD) == (
        "The kernel was killed by SIGKILL. Memory ran out.",
        "The training was at fit 1, epoch 3, step 6 (205 steps done, 200 saved).",
        "Its variables are gone: run cells [2] to [4] again; the training resumes from its checkpoint.",
    )
    idle = KernelRecord(pid=7, first=2, count=3, done=1)
    assert told(1, "", None, idle) == (
        "The kernel ended with exit code 1.",
        "Its variables are gone: run cell [2] again.",
    )
    assert told(1, "", None, KernelRecord(pid=7, first=2, count=4))[-1].endswith("run cells [2] and [3] again.")
    assert told(-9, "", None, KernelRecord(pid=7, first=2, count=2)) == ("The kernel was killed by SIGKILL.",)
    assert told(-15, "", None, None, hung=True) == ("The kernel made no progress and was stopped.",)


def test_record_is_read_only_for_its_own_process(tmp_path: Path) -> None:
    RecordFile(tmp_path).write(RECORD)
    assert read_record_of(tmp_path, 7) == RECORD
    assert read_record_of(tmp_path, 8) is None
    assert RECORD.next_count == 5
    assert KernelRecord(pid=7, count=4).next_count == 4


NO_REQUEST = '{"pid": 7, "first": 1, "count": 1, "done": 1, "running": [], "queued": []}'


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '{"pid": "x"}', "[" * 100_000, NO_REQUEST])
def test_damaged_files_count_as_missing(tmp_path: Path, text: str) -> None:
    RecordFile(tmp_path)
    for name in ("current", "death"):
        (tmp_path / "cells" / name).write_text(text)
    assert read_record_of(tmp_path, 7) is None
    assert take(tmp_path) is None
    assert not (tmp_path / "cells" / "death").exists()


def test_recorded_death_is_returned_only_once(tmp_path: Path) -> None:
    assert take(tmp_path) is None
    death = Death(("it died",), 5, REQUEST, RECORD.queued)
    leave_behind(tmp_path, death)
    assert take(tmp_path) == death
    assert take(tmp_path) is None
    leave_behind(tmp_path, death)
    os.utime(tmp_path / "cells" / "death", (0, 0))
    assert take(tmp_path) is None, "its client has gone"
    assert not (tmp_path / "cells" / "death").exists()


def test_identities_that_are_not_hexadecimal_are_rejected() -> None:
    data = json.loads(RECORD.to_json())
    data["running"]["identities"] = ["../x"]
    with pytest.raises(ValueError, match="fromhex"):
        KernelRecord.from_data(data)


def test_launcher_is_ipykernels_unless_another_is_named() -> None:
    assert launcher_of(["-f", "file"]) == ("ipykernel_launcher", ("-f", "file"))
    assert launcher_of(["--ip=127.0.0.1", "--f=file"]) == ("ipykernel_launcher", ("--ip=127.0.0.1", "--f=file"))
    assert launcher_of(["-m", "colab_kernel_launcher", "-f", "file"]) == ("colab_kernel_launcher", ("-f", "file"))
    assert launcher_of([]) == ("ipykernel_launcher", ())
    assert python_options(["python", "-Xfrozen_modules=off", "-m", "oomph.notebook.kernel", "-m", "it"]) == (
        "-Xfrozen_modules=off",
    )


def test_working_directory_is_removed_from_the_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for first in ("", str(tmp_path)):
        path = [first, "/lib"]
        leave_working_directory(path)
        assert path == ["/lib"]
    kept = ["/lib"]
    leave_working_directory(kept)
    assert kept == ["/lib"]


def test_record_of_fifty_waiting_cells_is_written_in_a_millisecond(tmp_path: Path) -> None:
    file, seconds = RecordFile(tmp_path), []
    record = KernelRecord(7, running=REQUEST, queued=(REQUEST,) * 50)
    for _ in range(100):
        started = time.perf_counter()
        file.write(record)
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.001
