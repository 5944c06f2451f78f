"""oomph explain for several targets, for a project folder, and with this machine's kernel log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from oomph.cli import main
from oomph.errors import ExamineError, UsageError
from oomph.explain.reading import kernel_log

RECORDED = Path(__file__).parents[1] / "hostile" / "run"
CRASH, CLEAN = "Segmentation fault (core dumped)\n", "Epoch 1/1\n"


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.log").write_text(CRASH)
    (tmp_path / "b.log").write_text(CLEAN)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[str, str]:
    assert main(["explain", *words]) == status
    captured = capsys.readouterr()
    return captured.out, " ".join(captured.err.split())


def test_each_of_several_targets_is_explained_under_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(capsys, "b.log", "a.log", "OOM101")
    assert out.startswith("b.log: no fault found\n")
    assert "\n\na.log: 1 fault found\n" in out
    assert "\n\ndevice-oom (OOM101): Device out of memory\n" in out


def test_missing_target_does_not_hide_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, "no.log", "a.log", status=ExamineError.exit_code)
    assert "a.log: 1 fault found" in out
    assert "there is no file or directory 'no.log'" in err


def test_fault_in_any_target_sets_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "a.log", "b.log", "--exit-code", status=1)
    told(capsys, "b.log", "b.log", "--exit-code")


@pytest.mark.parametrize("option", ["--json", "--exit-status=1", "--kernel-log=a.log"])
def test_single_target_option_is_rejected_for_several_targets(capsys: pytest.CaptureFixture[str], option: str) -> None:
    _, err = told(capsys, "a.log", "b.log", option, status=UsageError.exit_code)
    assert option.partition("=")[0] in err
    assert "specify only one target" in err


def test_error_words_need_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(capsys, "CUDA_ERROR_ILLEGAL_ADDRESS:", "an", "illegal", "access")
    assert " ".join(out.split()).startswith("'CUDA_ERROR_ILLEGAL_ADDRESS: an illegal access', treated as text: 1 fault")


@pytest.mark.parametrize("folder", [".", ".oomph", ".oomph/runs"])
def test_project_folder_is_explained_by_listing_its_runs(
    capsys: pytest.CaptureFixture[str], logs: Path, folder: str
) -> None:
    shutil.copytree(RECORDED, logs / ".oomph/runs/r1")
    out, _ = told(capsys, folder)
    assert out.splitlines()[-1] == "Next: oomph explain .oomph/runs/r1  (the newest)"


def test_full_report_says_its_fault_count_covers_the_whole_run(capsys: pytest.CaptureFixture[str], logs: Path) -> None:
    shutil.copytree(RECORDED, logs / "run")
    assert "\nthe whole run: " in told(capsys, "run", "--full")[0]
    assert "the evidence: " not in told(capsys, "run", "--full")[0]


@pytest.mark.parametrize(
    ("log", "shows"),
    [
        (b"usb 1-1: new device\nusb 1-2: new device\n", False),
        (b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n", True),
    ],
)
def test_amount_of_kernel_log_that_was_read_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, log: bytes, shows: bool
) -> None:
    monkeypatch.setattr(kernel_log, "messages", lambda: log)
    _, err = told(capsys, "b.log", "--kernel-log")
    amount = "1 line" if shows else "2 lines"
    assert f"read {amount} of the kernel log since the machine booted" in err
    assert ("the kernel log shows no GPU or memory fault" in err) is not shows


def test_unreadable_kernel_log_suggests_a_command_to_read_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "_COMMANDS", (("false",),))
    monkeypatch.setattr(kernel_log, "_FILES", ())
    _, err = told(capsys, "b.log", "--kernel-log", status=ExamineError.exit_code)
    assert "sudo dmesg | oomph explain" in err
