"""What README.md shows of the demo. `make transcript` runs the demo and writes it there; test_transcript.py compares."""

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
    r"0\.[89]\d{3}": "0.9###",  # accuracies, which depend on the processor
    r"epoch \d+, step \d+(?= \()": "epoch #, step #",  # where the kill came, and where the resume began
    r"\d+ steps done, \d+ saved": "# steps done, # saved",
    r"\d+( of 90 steps)? repeated|repeated +\d.*|\d+ repeated steps": "# repeated",
    r" {2,}": "  ",  # the width of columns
}
"""What differs from one demo to the next, and what is compared in its place."""


class Demo(NamedTuple):
    """One demo: how it ended, what it printed, and what it left."""

    returncode: int
    document: str
    printed: str
    folder: Path

    @property
    def shown(self) -> tuple[str, str]:
        """The two parts that README.md shows: the table, and the lines of `oomph run`."""
        table = next(part for part in self.printed.split("\n\n") if "undisturbed  plain python" in part)
        lines = (self.folder / "oomph.log").read_text().splitlines()
        return f"{table}\n", "".join(f"{line}\n" for line in lines if line.startswith("oomph: "))


def run_demo(folder: Path) -> Demo:
    """Run the demo in this folder."""
    words = [sys.executable, "-m", "oomph", "demo", "--json", "--keep", "demo"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    return Demo(done.returncode, done.stdout, done.stderr, folder / "demo")


def with_transcript(readme: str, shown: tuple[str, str]) -> str:
    """Return the text of README.md with these parts in its two blocks of text."""
    parts = iter(shown)
    return re.sub(r"(?<=^```text\n).*?(?=^```$)", lambda _: next(parts), readme, flags=re.MULTILINE | re.DOTALL)


def compared(text: str) -> str:
    """Return the text without what differs from one demo to the next."""
    for pattern, instead in VARIES.items():
        text = re.sub(pattern, instead, text)
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as chosen:
        README.write_text(with_transcript(README.read_text(), run_demo(Path(chosen)).shown))
