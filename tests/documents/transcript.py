"""Runs the demo, and puts what it prints into README.md: `make transcript`. test_transcript.py compares the two."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from documented import ROOT

README = ROOT / "README.md"
LIMIT = 580
VARIES = {
    r"\d+(\.\d+)? s\b": "# s",  # times
    r"\d+(\.\d+)? [KM]iB": "# MiB",  # sizes
    r"\d+(\.\d+)?%": "#%",
    r"\d(\.\d)?e-\d\d": "#e-#",  # differences in the last bits
    r"0\.[89]\d{3}": "0.####",  # accuracies: each processor rounds in its own way
    r"epoch \d+, step \d+(?= \(\d|, |$| \(exact\), )": "epoch #, step #",  # of the kill, of the checkpoint
    r"\d+ steps done, \d+ saved": "# steps done, # saved",
    r"\d+ of 90 steps repeated|\d+ repeated steps": "# repeated steps",
    r"steps repeated .*": "steps repeated #",
    r" {2,}": "  ",  # the width of columns
}
"""What differs from one demo to the next, and what stands for it in a comparison."""


class Demo(NamedTuple):
    """One demo: how it ended, what it printed, and the folder with what it left."""

    returncode: int
    document: str
    printed: str
    folder: Path

    @property
    def shown(self) -> tuple[str, str]:
        """What README.md shows: the table, and the lines of `oomph run` with the names of files instead of paths."""
        table = next(part for part in self.printed.split("\n\n") if "undisturbed  plain python" in part)
        lines = [line for line in (self.folder / "oomph.log").read_text().splitlines() if line.startswith("oomph: ")]
        lines[0] = re.sub(r"/\S*/", "", lines[0])
        return f"{table}\n", "".join(f"{line}\n" for line in lines)


def run_demo(folder: Path) -> Demo:
    """Run the demo in this folder."""
    words = [sys.executable, "-m", "oomph", "demo", "--json", "--keep", "demo"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    return Demo(done.returncode, done.stdout, done.stderr, folder / "demo")


def with_shown(readme: str, shown: tuple[str, str]) -> str:
    """Return the text of README.md with these parts as its two blocks of text."""
    parts = iter(shown)
    return re.sub(r"(?<=^```text\n).*?(?=^```$)", lambda _: next(parts), readme, flags=re.MULTILINE | re.DOTALL)


def compared(text: str) -> str:
    """Return the text without what differs from one demo to the next."""
    for pattern, instead in VARIES.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as chosen:
        README.write_text(with_shown(README.read_text(), run_demo(Path(chosen)).shown))
