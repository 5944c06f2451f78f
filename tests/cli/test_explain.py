"""oomph explain: its output, exit codes and cost."""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oomph.cli import explain
from oomph.errors import ExamineError, OomphError, RunDirectoryError, UsageError
from oomph.journal.events import (
    AttemptEnded,
    AttemptStarted,
    Decided,
    Diagnosed,
    Hung,
    Oom,
    ProcessStarted,
    Recovered,
    RestartRequested,
    RunEnded,
    UncaughtException,
)
from oomph.journal.journal import Journal
from oomph.run.directory.run_directory import SCHEMA, RunRecord

LOGS = Path(__file__).parents[1] / "logs"
OOM = str(LOGS / "oomgraph.log")
CLEAN = str(LOGS / "two.log")
MOST_CPU_SECONDS = 0.150


def one_line(text: str) -> str:
    """Return the text without line wrapping."""
    return " ".join(text.split())


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    explain.add_arguments(parser)
    return explain.run(parser.parse_args(words))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    run(*words, "--json")
    return json.loads(capsys.readouterr().out)


def make_run(folder: Path) -> Path:
    """Create a run whose first attempt is killed for lack of memory, and whose second recovers from an OOM."""
    first = Journal(folder, 1, "supervisor")
    first.write(AttemptEnded(returncode=-9, seconds=3.0, steps=10, saved=8, oom_kills=1))
    script, second = Journal(folder, 2, "script"), Journal(folder, 2, "supervisor")
    message = "Out of memory while trying to allocate 1.02GiB."
    script.write(Oom(fit=0, epoch=1, step=12, batch=64, micro_batch=64, phase="compute", message=message))
    script.write(Recovered(fit=0, epoch=1, step=12, batch=64, micro_batch=32))
    second.write(AttemptEnded(returncode=0, seconds=3.0, steps=20, saved=20, oom_kills=0))
    (folder / "stderr").mkdir()
    (folder / "stderr/1.log").write_bytes(b"W0000 cpu_allocator_impl.cc:83] something\n")
    return folder


def test_text_shows_numbered_evidence_remedies_and_the_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(OOM) == 0
    text = capsys.readouterr().out
    places = [
        text.index(part)
        for part in ("device-oom (OOM101)", "line 66: ", "oomph run train.py", "Next: oomph explain OOM101")
    ]
    assert places == sorted(places)


def test_text_lists_alternative_faults_only_if_the_fault_is_doubtful(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text("E cuda_driver.cc:300] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device\n")
    assert run(str(log)) == 0
    text = capsys.readouterr().out
    assert "1 fault found" in text
    assert "\nIf that does not fit: " in text
    assert "driver-failure (GPU312): the driver fails" in one_line(text)
    assert run(OOM) == 0
    assert "If that does not fit" not in capsys.readouterr().out


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, OOM)
    assert found.keys() == {"schema", "facts", "diagnoses"}
    (entry,) = found["diagnoses"]
    assert entry.keys() == {"code", "name", "role", "confidence", "evidence", "captured", "remedies"}
    assert (entry["code"], entry["name"], entry["role"]) == ("OOM101", "device-oom", "cause")
    assert 0 < entry["confidence"] <= 1
    assert all(fact.keys() == {"line", "text"} and fact["line"] > 0 for fact in entry["evidence"])
    assert all(
        {"text", "fit", "line"} <= remedy.keys() <= {"text", "action", "fit", "line"} for remedy in entry["remedies"]
    )
    assert entry["remedies"][0]["fit"] == "fits"
    assert entry["remedies"][0]["action"] == "shrink-micro-batch"


def test_healthy_log_json_has_no_diagnoses(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, CLEAN)
    assert found["schema"] == 1
    assert found["diagnoses"] == []
    assert [each["library"] for each in found["facts"]["versions"]] == ["tensorflow"], "stated all the same"


def test_json_has_the_facts_of_the_log_each_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    frame = '  File "/e/lib/python3.11/site-packages/keras/src/trainers/trainer.py", line 9, in fit'
    log.write_text(f'Traceback (most recent call last):\n  File "train.py", line 3, in main\n{frame}\nKeyError: 0\n')
    facts = document(capsys, str(log))["facts"]
    assert facts["phase"] == {"phase": "fit", "line": 3}
    assert (facts["own_place"]["file"], facts["own_place"]["code_line"]) == ("train.py", 3)
    keras, python = facts["versions"]
    assert keras == {"library": "keras", "versions": {"since": "3", "until": None}, "line": 3}
    assert python["versions"] == {"since": "3.11", "until": "3.11"}


@pytest.mark.parametrize(("log", "code"), [(OOM, 1), (CLEAN, 0)])
def test_fault_changes_the_exit_code_only_with_the_exit_code_option(log: str, code: int) -> None:
    assert run(log) == 0
    assert run(log, "--exit-code") == code


def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(OOM).read_bytes())))
    assert document(capsys, "-")["diagnoses"][0]["name"] == "device-oom"


@pytest.mark.parametrize("word", ["OOM101", "oom101", "device-oom"])
def test_page_is_printed_by_code_or_name(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert run(word) == 0
    text = capsys.readouterr().out
    assert "What oomph does, and what this changes in your run" in text
    assert "[oomph run does this for you]" in text


def test_explain_works_on_a_terminal_without_unicode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "café.log").write_text("Traceback (most recent call last):\nKeyError: 'é'\n")
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", ascii_only)
    assert run(str(tmp_path / "café.log")) == 0


def test_page_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "OOM101")
    assert (found["schema"], found["fault"]["name"]) == (1, "device-oom")


def test_run_is_explained_from_its_journal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = document(capsys, str(make_run(tmp_path / "run")))["diagnoses"]
    assert [(entry["name"], entry["role"]) for entry in found] == [
        ("host-oom", "cause"),
        ("device-oom", "cause"),
        ("killed", "consequence"),
    ]
    run(str(tmp_path / "run"), "--full")
    assert "attempt 2, epoch 2, step 13: " in capsys.readouterr().out


def test_exit_code_requested_by_oomph_is_not_a_fault(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Journal(tmp_path, 1, "script").write(RestartRequested(fault="device-oom", reason="state half written"))
    Journal(tmp_path, 1, "supervisor").write(AttemptEnded(returncode=75, oom_kills=0))
    assert document(capsys, str(tmp_path))["diagnoses"] == []


def test_kill_that_ended_a_hang_is_reported_only_as_the_hang(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script, supervisor = Journal(tmp_path, 1, "script"), Journal(tmp_path, 1, "supervisor")
    script.write(ProcessStarted())
    supervisor.write(Hung(phase="step", fit=0, seconds=61.2, limit_seconds=60.0, line="train.py:12 in load"))
    supervisor.write(AttemptEnded(returncode=-9, oom_kills=0))
    (entry,) = document(capsys, str(tmp_path))["diagnoses"]
    assert entry["name"] == "hang"
    captured = {name: entry["captured"][name] for name in ("phase", "limit_seconds", "python_line")}
    assert captured == {"phase": "step", "limit_seconds": "60", "python_line": "train.py:12 in load"}
    assert entry["evidence"][0]["text"].endswith("; oomph stopped the script")


def test_killed_attempt_without_a_hang_is_still_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Journal(tmp_path, 1, "supervisor").write(AttemptEnded(returncode=-9, oom_kills=0))
    assert [entry["name"] for entry in document(capsys, str(tmp_path))["diagnoses"]] == ["killed"]


@pytest.mark.parametrize(
    ("written", "says"), [(b"", "is empty"), (b"\x00\xff junk\n{}\n", "cannot be read"), (None, "is missing")]
)
def test_run_without_a_readable_journal_is_rejected(tmp_path: Path, written: bytes | None, says: str) -> None:
    (tmp_path / "journal").mkdir()
    if written is not None:
        (tmp_path / "journal/1-0-script.jsonl").write_bytes(written)
    kind, sentence = fails(str(tmp_path))
    assert (kind, says in sentence) == (ExamineError, True)


def test_unreadable_journal_lines_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Journal(tmp_path, 1, "supervisor").write(AttemptEnded(returncode=0, oom_kills=0))
    with (tmp_path / "journal/1-0-supervisor.jsonl").open("ab") as journal:
        journal.write(b"junk\n{}\n" + b'{"schema":1,"event":"at')  # the last run is merely unfinished
    assert run(str(tmp_path)) == 0
    assert "2 lines of the journal" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--json"], ["--decisions"], ["--decisions", "--json"]])
def test_damaged_run_files_are_reported_in_every_output_form(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str]
) -> None:
    Journal(tmp_path, 1, "supervisor").write(AttemptEnded(returncode=0, oom_kills=0))
    with (tmp_path / "journal/1-0-supervisor.jsonl").open("ab") as journal:
        journal.write(b"[1]\n")
    (tmp_path / "run.json").write_text("[]")
    assert run(str(tmp_path), *options) == 0
    said = capsys.readouterr().err
    assert f"1 line of the journal in {tmp_path} cannot be read; whatever it recorded is missing" in said
    assert f"run.json in {tmp_path} is damaged" in said


def fails(*words: str) -> tuple[type[OomphError], str]:
    with pytest.raises(OomphError) as caught:
        run(*words)
    assert "\n" not in str(caught.value)
    return caught.type, str(caught.value)


def test_unusable_input_is_rejected_with_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "model.h5").write_bytes(bytes(range(256)))
    (tmp_path / "zeros.log").write_bytes(bytes(20_000))
    (tmp_path / "folder").mkdir()
    targets = {
        "empty.log": "is empty",
        "model.h5": "binary",
        "zeros.log": "nothing but NUL bytes",
        "folder": "is a directory",
        "missing.log": "there is no file",
    }
    for name, words in targets.items():
        kind, message = fails(str(tmp_path / name))
        assert kind is ExamineError
        assert words in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_read_permission_is_rejected_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "secret.log").write_text("x")
    (tmp_path / "secret.log").chmod(0)
    kind, message = fails(str(tmp_path / "secret.log"))
    assert (kind, "Permission denied" in message) == (ExamineError, True)


@pytest.mark.parametrize("status", ["-999", "-65", "256", "99999999999"])
def test_impossible_exit_status_is_a_usage_error(status: str) -> None:
    kind, message = fails(f"--exit-status={status}")
    assert (kind, message.startswith("--exit-status must be an exit code from 0 to 255, or -n")) == (UsageError, True)


@pytest.mark.parametrize("status", ["-64", "0", "255"])
def test_extreme_exit_statuses_are_accepted(status: str) -> None:
    assert run(f"--exit-status={status}") == 0


@pytest.mark.parametrize("word", ["DOC204", "doc204", "nvml"])
def test_doctor_check_is_explained_by_name_or_code(capsys: pytest.CaptureFixture[str], word: str) -> None:
    assert run(word) == 0
    text = capsys.readouterr().out
    assert text.startswith("nvml (DOC204): ")
    assert "Next: oomph doctor --only DOC204" in text
    assert document(capsys, word)["check"]["code"] == "DOC204"


@pytest.mark.parametrize(
    ("exception", "first"),
    [
        ("ResourceExhaustedError", "device-oom"),
        ("tf.errors.ResourceExhaustedError", "device-oom"),
        ("MemoryError", "host-oom"),
        ("UnavailableError", "worker-lost"),
        ("KeyError", "unrelated"),
    ],
)
def test_exception_class_is_explained_with_its_possible_faults(
    capsys: pytest.CaptureFixture[str], exception: str, first: str
) -> None:
    assert run(exception) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{exception.rpartition('.')[2]} is an exception class")
    assert one_line(text).split(" It may be one of these: ")[1].startswith(f"{first} (")
    assert document(capsys, exception)["faults"][0]["name"] == first


def test_exception_class_without_a_page_is_rejected_as_unknown() -> None:
    with pytest.raises(ExamineError, match="no file, run or fault 'FooBarError'"):
        run("FooBarError")


def test_run_status_cannot_forge_an_oomph_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    make_record(tmp_path / "r", "finished\noomph: forged")
    assert run(str(tmp_path)) == 0
    assert not any(line.startswith("oomph: ") for line in capsys.readouterr().out.splitlines())


def test_runs_in_a_folder_are_listed_newest_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / ".oomph" / "runs"
    for age, name in ((20, "old"), (10, "new")):
        (folder / name).mkdir(parents=True)
        record = RunRecord((f"{name} one.py",), "python", str(tmp_path), "2026-01-01T00:00:00+0000", status="failed")
        (folder / name / "run.json").write_text(record.to_json())
        os.utime(folder / name / "run.json", (1e9 - age, 1e9 - age))
    for target in (folder, folder.parent):
        assert run(str(target)) == 0
        first, second, *last = capsys.readouterr().out.splitlines()
        assert first.split()[:2] == [str(folder / "new"), "failed"]
        assert first.endswith("'new one.py'")
        assert str(folder / "old") in second
        assert one_line(" ".join(last)) == f"Next: oomph explain {folder / 'new'} (the newest)"
        assert [entry["path"] for entry in document(capsys, str(target))["runs"]] == [
            str(folder / "new"),
            str(folder / "old"),
        ]


def test_piped_log_needs_no_dash(tmp_path: Path) -> None:
    explain_it = [sys.executable, "-m", "oomph", "explain"]
    with Path(OOM).open("rb") as log:
        done = subprocess.run(explain_it, stdin=log, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("standard input: 1 fault found")
    piped = subprocess.run(explain_it, input=Path(OOM).read_text(), capture_output=True, text=True, timeout=60)
    assert piped.stdout == done.stdout
    nothing = subprocess.run(
        explain_it, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert (nothing.returncode, nothing.stdout) == (2, "")


def test_nonexistent_code_is_a_usage_error_that_suggests_another() -> None:
    kind, message = fails("OOM999")
    assert (kind, "OOM101" in message) == (UsageError, True)


def test_impossible_path_does_not_crash() -> None:
    assert fails("a\0b")[0] is ExamineError
    assert fails("x" * 5000)[0] is ExamineError
    assert fails("x" * 5000 + "/run.json")[0] is ExamineError


CHILD = """
import resource, sys
sys.argv = ["oomph", *sys.argv[1:]]
try:
    from oomph.cli import command
    code = command()
except SystemExit as end:
    code = end.code
used = resource.getrusage(resource.RUSAGE_SELF)
heavy = {"tensorflow", "keras", "numpy", "psutil"} & sys.modules.keys()
print("\\n", code, used.ru_utime + used.ru_stime, ",".join(sorted(heavy)) or "none", sep="|")
"""


@pytest.mark.alone
@pytest.mark.parametrize("words", [("explain", OOM), ("explain", "--help"), ("--help",)], ids=" ".join)
def test_explain_starts_quickly_without_heavy_imports(words: tuple[str, ...], tmp_path: Path) -> None:
    # As after an installation, where pip compiles the modules; without that, our source would be parsed at each start.
    installed = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    installed["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    spent = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True, env=installed, timeout=60
        )
        _, code, seconds, heavy = done.stdout.rsplit("\n", 2)[-2].split("|")
        assert (code, heavy) in {("0", "none"), ("None", "none")}
        spent.append(float(seconds))
    assert min(spent) <= MOST_CPU_SECONDS


def names(capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[str, str]]:
    return [(entry["name"], entry["role"]) for entry in document(capsys, *words)["diagnoses"]]


def test_exit_status_is_explained_alone_or_with_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, "--exit-status", "-11") == [("segmentation-fault", "cause")]
    assert names(capsys, "--exit-status", "0") == []
    assert names(capsys, OOM, "--exit-status", "134") == [("device-oom", "cause"), ("abort", "consequence")]


def test_kernel_log_fault_is_the_cause_of_a_program_log_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kernel = tmp_path / "kern.log"
    kernel.write_text("[  12.000001] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n")
    (tmp_path / "train.log").write_text("cuda_event.cc:29] failed to query event: CUDA_ERROR_LAUNCH_FAILED\n")
    found = names(capsys, str(tmp_path / "train.log"), "--kernel-log", str(kernel))
    assert found == [("hardware-fault", "cause"), ("kernel-launch-failure", "consequence")]
    assert names(capsys, "--kernel-log", str(kernel)) == [("hardware-fault", "cause")]


def test_tensorflow_memory_map_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, str(LOGS / "memory_map_bfc.1795269674182208")) == [("device-oom", "cause")]


def test_memory_map_in_a_run_directory_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Journal(tmp_path, 1, "supervisor").write(AttemptEnded(returncode=1, oom_kills=0))
    dump = LOGS / "memory_map_bfc.1795269674182208"
    (tmp_path / dump.name).write_bytes(dump.read_bytes())
    assert names(capsys, str(tmp_path)) == [("device-oom", "cause")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1"])
def test_log_in_another_encoding_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str) -> None:
    log = "Größe\nOOM when allocating tensor with shape[2,3] and type float on /device:GPU:0 by allocator GPU_0_bfc\n"
    (tmp_path / "x.log").write_bytes(log.encode(encoding))
    assert names(capsys, str(tmp_path / "x.log")) == [("device-oom", "cause")]


def test_named_pipe_is_read_once_a_writer_appears(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    explain = [sys.executable, "-m", "oomph", "explain", str(pipe), "--json"]
    with subprocess.Popen(explain, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        pipe.write_text("CUDA_ERROR_ILLEGAL_ADDRESS\n")
        out, err = child.communicate(timeout=60)
    assert json.loads(out)["diagnoses"][0]["name"] == "illegal-memory-access"
    assert err == f"oomph: waiting for a program to write to {pipe}\n"


def test_growing_file_is_read_only_up_to_its_initial_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from oomph.explain.reading import file

    path = tmp_path / "grows.log"
    path.write_bytes(b"a line\n" * 20000)

    class Growing(file._Source):
        def read(self, size: int, /) -> bytes:
            with path.open("ab") as stream:
                stream.write(b"x" * 200000)
            return super().read(size)

    monkeypatch.setattr(file, "_Source", Growing)
    assert sum(1 for _ in file.read_file(path)) == 20000


def test_nothing_to_explain_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="give a log"):
        run()


def test_binary_resembling_a_memory_map_does_not_crash(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x0a\x09GPU_0_bfc" + bytes(range(256)) * 40)
    assert fails(str(tmp_path / "model.bin"))[0] is ExamineError


def make_record(folder: Path, status: str = "running", cwd: Path | None = None, options: Sequence[str] = ()) -> None:
    words = ("train.py", "--epochs", "3")
    where = str(cwd or Path.cwd())
    record = RunRecord(words, sys.executable, where, "", status=status, attempts=1, options=tuple(options))
    (folder / "run.json").write_text(record.to_json())
    (folder / "checkpoints" / "step-1-fit0-epoch0-step1").mkdir(parents=True, exist_ok=True)
    supervisor = Journal(folder, 1, "supervisor")
    supervisor.write(AttemptStarted())
    if status != "running":
        supervisor.write(RunEnded(exit_code={"preempted": 75, "finished": 0}.get(status, 1)))


def test_run_with_a_killed_supervisor_is_reported_as_unfinished(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_record(tmp_path)
    assert run(str(tmp_path)) == 0
    text = one_line(capsys.readouterr().out)
    assert f"{tmp_path}: no fault found; the run has not finished: " in text
    assert f"Next: oomph run --resume={tmp_path} train.py --epochs 3 (" in text
    assert "SCRIPT" not in text
    told = document(capsys, str(tmp_path))["run"]
    assert told == {"state": "unfinished", "next": f"oomph run --resume={tmp_path} train.py --epochs 3"}


def test_run_is_resumed_with_its_original_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(tmp_path, options=("--run-dir", "elsewhere", "--recheck=50"))
    expected = f"oomph run --resume={tmp_path} --recheck=50 train.py --epochs 3"
    assert document(capsys, str(tmp_path))["run"]["next"] == expected


def test_run_from_another_folder_is_resumed_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(tmp_path, cwd=Path("/some where"))
    assert document(capsys, str(tmp_path))["run"]["next"].startswith(
        f"cd '/some where' && oomph run --resume={tmp_path} "
    )


def test_locked_run_is_reported_as_in_progress(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(tmp_path)
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(str(tmp_path))
        assert "no fault found; the run is still in progress" in one_line(capsys.readouterr().out)
        assert document(capsys, str(tmp_path))["run"]["state"] == "going-on"


def test_preempted_run_gets_a_resume_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(tmp_path, "preempted")
    run(str(tmp_path))
    text = one_line(capsys.readouterr().out)
    assert "ended with exit code 75, 0 s; the run has not finished: its machine was reclaimed" in text
    assert f"Next: oomph run --resume={tmp_path} train.py --epochs 3 (resumes from its last checkpoint)" in text
    assert document(capsys, str(tmp_path))["run"]["state"] == "preempted"


def test_unreadable_kernel_log_is_rejected_despite_a_readable_program_log(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    kind, message = fails(OOM, "--kernel-log", str(tmp_path / "folder"))
    assert (kind, "folder" in message) == (ExamineError, True)


@pytest.mark.parametrize("status", ["finished", "failed", "gave-up"])
def test_finished_run_gets_no_resume_command(capsys: pytest.CaptureFixture[str], tmp_path: Path, status: str) -> None:
    make_record(tmp_path, status)
    told = document(capsys, str(tmp_path))
    assert (told["diagnoses"], told["story"]["incidents"], "run" in told) == ([], [], False)


def test_run_events_are_shown_in_order_and_full_adds_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = Path(__file__).parents[1] / "hostile" / "run"
    assert run(str(recorded)) == 0
    text = capsys.readouterr().out
    places = [
        text.index(part)
        for part in ("finished after 64 steps", "1. device-oom (OOM101)", "2. killed", "--micro-batch=8192", "--full")
    ]
    assert places == sorted(places)
    assert "   what to do (" not in text
    run(str(recorded), "--full")
    assert "   what to do (" in capsys.readouterr().out
    story = document(capsys, str(recorded))["story"]
    assert [incident["fault"] for incident in story["incidents"]] == ["device-oom", "killed"]


def test_failed_run_shows_its_final_fault_and_remedies(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(tmp_path, "failed")
    script, supervisor = Journal(tmp_path, 1, "script"), Journal(tmp_path, 1, "supervisor")
    script.write(UncaughtException(type="NameError", message="name 'x' is not defined"))
    supervisor.write(AttemptEnded(returncode=1, seconds=1.0, steps=0, saved=0))
    supervisor.write(Diagnosed(fault="unrelated", code="PYT001", also=[]))
    supervisor.write(Decided(action="finish", exit_code=1, reason="", ending={}))
    supervisor.write(RunEnded(exit_code=1))
    run(str(tmp_path))
    text = " ".join(capsys.readouterr().out.split())
    parts = ("ended with exit code 1", "1. unrelated (PYT001), attempt 1", "a plain Python error, ")
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["summary.json", "run.json", "journal/1-0-supervisor.jsonl"])
def test_run_file_is_explained_like_the_run_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    folder = make_run(tmp_path / "run")
    make_record(folder, "gave-up")
    (folder / "summary.json").write_text("{}")
    assert document(capsys, str(folder / name)) == document(capsys, str(folder))
    assert document(capsys, str(folder / name))["diagnoses"]


def test_lookalike_run_file_outside_a_run_is_read_as_a_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("CUDA_ERROR_ILLEGAL_ADDRESS\n")
    assert names(capsys, str(tmp_path / "summary.json"))[0] == ("illegal-memory-access", "cause")


def test_missing_journal_is_rejected_with_and_without_decisions(tmp_path: Path) -> None:
    make_record(tmp_path)
    (tmp_path / "journal/1-0-supervisor.jsonl").unlink()
    for words in ([str(tmp_path)], [str(tmp_path), "--decisions"]):
        with pytest.raises(
            ExamineError, match=r"is missing, so what happened in that run is unknown; its run\.json says: running"
        ):
            run(*words)


@pytest.mark.parametrize("option", ["--exit-status=137", "--exit-status=0", "--kernel-log", "--full", "--exit-code"])
@pytest.mark.parametrize("target", ["a page", "runs", "decisions"])
def test_option_without_effect_is_rejected(tmp_path: Path, option: str, target: str) -> None:
    folder = make_run(tmp_path / "run")
    make_record(folder, "failed")
    words = {"a page": ["OOM101"], "runs": [str(tmp_path)], "decisions": [str(folder), "--decisions"]}[target]
    if (target, option) == ("decisions", "--exit-code"):
        assert run(*words, option) == 0
        return
    with pytest.raises(UsageError, match=f"leave {option.partition('=')[0]} out"):
        run(*words, option)


@pytest.mark.parametrize("words", [[OOM], ["--exit-status=137"]], ids=" ".join)
def test_full_option_is_rejected_without_a_run(words: list[str]) -> None:
    assert fails(*words, "--full") == (UsageError, "--full applies only to a run: leave it out")


@pytest.mark.parametrize(
    ("target", "kind", "said"),
    [
        ("", UsageError, "the target to explain is empty"),
        ("xid79", ExamineError, "for Xid 79 in the kernel log, type oomph explain HWD801"),
        ("Xid 31", ExamineError, "for Xid 31 in the kernel log, type oomph explain GPU301"),
        ("SIG_IGN", ExamineError, "there is no file, run or fault 'SIG_IGN'"),
        ("999", ExamineError, "there is no file, run or fault '999'"),
    ],
)
def test_unknown_target_is_rejected_with_a_hint(target: str, kind: type[OomphError], said: str) -> None:
    raised, sentence = fails(target)
    assert (raised, said in sentence) == (kind, True)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/random"])
def test_device_file_is_rejected_as_a_log(device: str) -> None:
    assert fails(device) == (ExamineError, f"{device} is a device, not a log")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("75", "oomph run exits with 75 when starting again elsewhere or later may help. Next: oomph run --resume"),
        ("93", "oomph run exits with 93 when another start would only hit the same fault again."),
        ("124", "The command timeout exits with 124 when the program ran longer than allowed."),
        ("143", "SIGTERM"),
        ("-15", "SIGTERM"),
        ("127", "cannot find"),
        ("1", "explain LOG --exit-status=1"),
        ("0", "oomph run SCRIPT"),
    ],
)
def test_exit_status_without_a_fault_is_explained(capsys: pytest.CaptureFixture[str], status: str, said: str) -> None:
    assert run(f"--exit-status={status}") == 0
    assert said in one_line(capsys.readouterr().out)


def test_device_file_is_rejected_as_a_kernel_log() -> None:
    assert fails(OOM, "--kernel-log=/dev/zero") == (ExamineError, "/dev/zero is a device, not a log")


@pytest.mark.parametrize("status", ["1", "128", "158", "255"])
def test_exit_status_chosen_by_a_program_is_not_a_fault(capsys: pytest.CaptureFixture[str], status: str) -> None:
    assert names(capsys, "--exit-status", status) == []


def test_run_with_another_journal_format_is_rejected_naming_the_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_run(tmp_path)
    for path in (tmp_path / "journal").glob("*.jsonl"):
        path.write_text(path.read_text().replace('"schema":1', '"schema":7'))
    (tmp_path / "stderr/1.log").unlink()
    kind, said = fails(str(tmp_path))
    assert (kind, "written by another version of oomph, in format 7" in said) == (ExamineError, True)


@pytest.mark.parametrize("options", [[], ["--json"], ["--decisions"], ["--full"]])
def test_run_record_in_another_format_is_rejected_naming_both_formats(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str]
) -> None:
    make_record(make_run(tmp_path))
    path = tmp_path / "run.json"
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', '"schema": 7'))
    kind, said = fails(str(tmp_path), *options)
    assert (kind, kind.exit_code) == (RunDirectoryError, 2)
    assert said.startswith(f"{tmp_path} was written by another version of oomph, in format 7; this one, ")
    assert said.endswith(f", reads format {SCHEMA}")
    assert capsys.readouterr() == ("", "")


def test_run_in_another_format_among_several_targets_keeps_its_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text('{"schema": 7}')
    assert run(str(tmp_path), OOM) == 2
    assert "in format 7" in one_line(capsys.readouterr().err)


def test_emptied_attempt_journal_is_reported_by_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_record(make_run(tmp_path), status="finished")
    (tmp_path / "journal/1-0-supervisor.jsonl").write_bytes(b"")
    assert run(str(tmp_path)) == 0
    said = one_line(capsys.readouterr().err)
    assert said == f"oomph: the journal in {tmp_path} is incomplete: 1-0-supervisor.jsonl is empty"


def test_run_without_a_journal_is_explained_from_its_stderr_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    make_record(tmp_path)
    shutil.rmtree(tmp_path / "journal")
    (tmp_path / "stderr").mkdir(exist_ok=True)
    (tmp_path / "stderr/1.log").write_text("CUDA_ERROR_ILLEGAL_ADDRESS\n")
    assert run(str(tmp_path)) == 0
    printed = capsys.readouterr()
    assert "illegal-memory-access" in printed.out
    assert f"the journal in {tmp_path} is missing" in printed.err
