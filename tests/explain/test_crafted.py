"""Maliciously crafted logs: `oomph explain` takes seconds, uses little memory, and answers in plain words."""

from __future__ import annotations

import os
import random
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import attacks, sample

from oomph.explain.catalogue.catalogue import load

pytestmark = pytest.mark.alone

SECONDS = 60
SIGNATURES = [signature for fault in load() for signature in fault.signatures if signature.pattern]
OOM = "ResourceExhaustedError: OOM when allocating tensor with shape[1,2] and type float on /device:GPU:0 by allocator"


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oomph", "explain", *words]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    ended.seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime
    assert "Traceback" not in ended.stderr, ended.stderr[-2000:]
    return ended


def crafted(width: int, size: int) -> str:
    """Lines that end with what makes a pattern examine them, after the text that it handles worst."""
    chance, lines, written = random.Random(width), [], 0
    while written < size:
        signature = chance.choice(SIGNATURES)
        texts = list(attacks(re.compile(signature.pattern), width, chance.randrange(10**6)))
        texts.append(" ".join(chance.choice(SIGNATURES).literal for _ in range(width // 12)))
        for text in texts:
            word, most = "".join(chance.choices("abcdefgh", k=8)), width - len(signature.literal)
            line = f"{word} {text[:most]} {signature.literal}"
            lines.append(line.replace("\n", " ").replace("\0", " "))
            written += len(line)
    chance.shuffle(lines)
    return "\n".join(lines)[:size]


@pytest.mark.parametrize("width", [60, 500, 4000, 100_000])
def test_megabyte_of_crafted_lines_takes_seconds(tmp_path, width):
    (tmp_path / "log").write_text(crafted(width, 1 << 20))
    ended = explain(str(tmp_path / "log"))
    assert ended.returncode in (0, 1), ended.stderr
    assert ended.seconds < 20


def test_terabyte_of_nul_bytes_is_read_in_seconds(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.truncate(1 << 40)
    ended = explain(str(log))
    assert "contains nothing but NUL bytes" in ended.stderr
    with log.open("r+b") as file:
        file.seek(1 << 39)
        file.write(f"\n{OOM}\n".encode())
    ended = explain(str(log))
    assert "device-oom" in ended.stdout
    assert ended.seconds < 5


@pytest.mark.parametrize("digits", [18, 19, 400, 4400, 40_000])
def test_numbers_of_any_length_do_not_crash_explain(tmp_path, digits):
    many = "9" * digits
    found = [sample(each.pattern, digits) for each in SIGNATURES]
    lines = [re.sub(r"\d+", many, line).replace("\n", " ") for line in found]
    lines += [f"{each.literal} {many}" for each in SIGNATURES]
    lines += [
        f"Limit: {many}",
        f"InUse:  {many}",
        f"x ran out of memory trying to allocate {many}GiB (rounded to {many})",
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    assert explain(str(tmp_path / "log")).returncode in (0, 1)
    assert "no file, run or fault" in explain(many[:200]).stderr


def test_circular_link_is_rejected(tmp_path: Path):
    (tmp_path / "log").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "fifo")
    assert explain(str(tmp_path / "log")).returncode not in (0, 1)
