"""A verb whose output descriptor is closed or full prints one sentence and exits with a dedicated code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oomph.cli import main, output

CLOSED = "oomph: standard output is closed: there is nowhere to print to\n"
FULL = "oomph: standard output cannot be written: No space left on device\n"


def shell(words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'exec "$0" -m oomph {words}', sys.executable], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("explain DST703 >&-", 2, CLOSED),
        ("explain DST703 --json >&-", 2, CLOSED),
        ("explain --exit-status 137 --exit-code >&-", 2, CLOSED),
        ("doctor --only gpu-growth >&-", 2, CLOSED),
        ("doctor --help >&-", 2, CLOSED),
        ("rehearse missing.py >&-", 2, CLOSED),
        ("watch >&-", 2, CLOSED),
        ("watch --once >/dev/full", 2, FULL),
        ("--version >&-", 2, CLOSED),
        ("--help >/dev/full", 2, FULL),
        ("explain --help >/dev/full", 2, FULL),
        ("explain DST703 >/dev/full", 2, FULL),
        ("explain DST703 --json >/dev/full", 2, FULL),
        ("doctor --only gpu-growth >/dev/full", 2, FULL),
        ("doctor --only gpu-growth --json >/dev/full", 2, FULL),
        ("explain - <&-", 3, "oomph: standard input is closed\n"),
    ],
)
def test_unwritable_output_is_reported_in_one_sentence_with_a_distinct_exit_code(words, code, said):
    ended = shell(words)
    assert (ended.stderr, ended.returncode) == (said, code)


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("words", "code"), [("explain ./missing", 3), ("explain --no-such", 2), ("nosuch", 2)])
def test_exit_code_is_the_same_when_stderr_is_unusable(words, code, where):
    ended = shell(f"{words} {where}")
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", code)


def test_broken_pipe_exits_silently():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "oomph", "explain", "DST703"]
    with open(writer, "wb") as pipe:
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    assert (ended.stderr, ended.returncode) == (b"", 141)


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
def test_run_keeps_the_scripts_exit_code_when_output_fails(tmp_path, where):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit(7)\n")
    ended = shell(f"run --no-guard --run-dir={tmp_path / 'run'} --json {script} {where}")
    assert ended.returncode == 7
    assert "the summary could not be printed: standard output" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_printed_control_characters_are_escaped(capsys):
    output.write("a\x1b[31m\tname\n")
    output.tell("b\x07\x9b\n")
    assert capsys.readouterr() == ("a\\x1b[31m\tname\n", "b\\x07\\x9b\n")


def test_memory_error_is_reported_in_one_sentence(monkeypatch, capsys):
    def run_out(words):
        raise MemoryError

    monkeypatch.setattr("oomph.cli._dispatch", run_out)
    assert main(["explain", "run"]) == 2
    assert capsys.readouterr().err == "oomph: there is not enough memory to read the input\n"
