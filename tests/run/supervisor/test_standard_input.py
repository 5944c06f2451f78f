"""Standard input in a script's second attempt."""

from __future__ import annotations

import subprocess

READS = """
import os, sys
sys.stdout.write(sys.stdin.readline())
sys.stdout.flush()
if not os.path.exists('again'): open('again', 'w').close(); os.abort()
print(repr(sys.stdin.read()))
"""


def lines(stderr: bytes) -> list[str]:
    return [line for line in stderr.decode().splitlines() if line.startswith("oomph: ")]


def test_input_file_is_read_again_from_its_original_position(work):
    work.script(READS)
    (work.folder / "input").write_text("not for the script\none\ntwo\n")
    with (work.folder / "input").open("rb", buffering=0) as file:
        file.seek(len("not for the script\n"))
        result = work.run("train.py", stdin=file)
    assert (result.returncode, result.stdout) == (0, b"one\none\n'two\\n'\n")
    assert not any("standard input" in line for line in lines(result.stderr))


def test_pipe_that_cannot_be_read_again_is_reported_once(work):
    work.script(READS)
    result = work.run("train.py", input=b"one\ntwo\n")
    assert (result.returncode, result.stdout) == (0, b"one\n''\n")
    assert sum("standard input is a pipe" in line for line in lines(result.stderr)) == 1


def test_script_without_standard_input_gets_no_message(work):
    work.script(READS)
    result = work.run("train.py", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout) == (0, b"''\n")
    assert not any("standard input" in line for line in lines(result.stderr))
