"""oomph explain for arguments that are not files: error text, an exit status, or a signal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.cli import main
from oomph.errors import ExamineError, UsageError


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def one_line(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(["explain", *words]) == status
    captured = capsys.readouterr()
    return " ".join((captured.err if status else captured.out).split())


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("Received a label value of 7 which is outside the valid range of [0, 5).", "label-out-of-range (DAT603)"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "illegal-memory-access (GPU301)"),
        ("CUDNN_STATUS_INTERNAL_ERROR", "cudnn-execution-failed (GPU307)"),
    ],
)
def test_error_words_are_treated_as_text(capsys: pytest.CaptureFixture[str], words: str, fault: str) -> None:
    text = one_line(capsys, words)
    assert text.startswith(f"{words!r}, treated as text: 1 fault found 1. {fault}")


def test_text_and_log_give_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "CUDA_ERROR_ILLEGAL_ADDRESS", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["diagnoses"][0]["code"] == "GPU301"


@pytest.mark.parametrize(
    ("word", "status", "fault"),
    [
        ("137", 137, "killed (CRS201)"),
        ("139", 139, "segmentation-fault (CRS202)"),
        ("SIGSEGV", 139, "segmentation-fault (CRS202)"),
        ("sigkill", 137, "killed (CRS201)"),
    ],
)
def test_bare_number_is_explained_as_an_exit_status(
    capsys: pytest.CaptureFixture[str], word: str, status: int, fault: str
) -> None:
    assert one_line(capsys, word) == one_line(capsys, f"--exit-status={status}")
    assert fault in one_line(capsys, word)


def test_file_takes_precedence_over_an_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    Path("139").write_text("Segmentation fault (core dumped)\n")
    assert one_line(capsys, "139").startswith("139: 1 fault found")


@pytest.mark.parametrize("name", ["no.log", "Segmentation fault.log", "runs/CUDA_ERROR_ILLEGAL_ADDRESS"])
def test_missing_file_is_not_treated_as_text(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert "there is no file or directory" in one_line(capsys, name, status=ExamineError.exit_code)


def test_link_without_a_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dangling").symlink_to("gone.log")
    said = one_line(capsys, "dangling", status=ExamineError.exit_code)
    assert said == "oomph: 'dangling' is a link to 'gone.log', which does not exist"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hello", "there is no file, run or fault 'hello'. To explain text, pipe it in: python train.py 2>&1 |"),
        ("OOM", "did you mean one of OOM101, OOM102, OOM103, OOM104, OOM110? To explain text, pipe it in: "),
        ("devic-oom", "did you mean device-oom? To explain text, pipe it in: "),
    ],
)
def test_unrecognised_words_are_rejected_with_a_hint_to_pipe_the_text(
    capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert said in one_line(capsys, word, status=ExamineError.exit_code)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("OOM999", "unknown fault OOM999; there are OOM101, OOM102, OOM103, OOM104, OOM110"),
        ("XYZ123", "unknown fault XYZ123; codes begin with CKP, CRS, DAT, DST, GPU, HWD, OOM, PYT, VER, XLA"),
    ],
)
def test_unknown_code_is_rejected_and_similar_codes_are_suggested(
    capsys: pytest.CaptureFixture[str], code: str, said: str
) -> None:
    assert one_line(capsys, code, status=UsageError.exit_code).endswith(said)
