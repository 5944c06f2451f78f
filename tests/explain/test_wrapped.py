"""A log keeps its diagnosis however it was passed on: indented, timestamped, quoted, logged, or joined."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose_log

LOGS = Path(__file__).parents[1] / "logs"
PREFIXES = [
    " " * 4,
    " " * 8,
    "\t",
    "[2024-01-01 00:00:00] ",
    "ERROR:root:",
    "INFO:tensorflow:",
    "2024-01-01 00:00:00,123 - root - ERROR - ",
    "2024-01-01 00:00:00,123 - root - INFO - ",
    "2024-01-01 00:00:00,123 [ERROR] root: ",
    "2024-01-01 00:00:00.123 | ERROR    | ",
    "> ",
    ">>> ",
    "| ",
    ">     ",
]
# A name that requires more than the words in the log.
NOT_WHEN_JOINED = {
    "memory-leak": "figures are compared line by line",
    "unrecognised": "the checked condition and the frame before it make one record",
}


@cache
def texts() -> dict[str, str]:
    """Every page example, and every log in this repository, by name."""
    examples = {fault.name: fault.example for fault in load()}
    logs = {str(path.relative_to(LOGS)): path.read_text(errors="replace") for path in sorted(LOGS.rglob("*.log"))}
    return examples | logs


@cache
def as_it_was(name: str) -> str:
    return named(texts()[name])


def named(text: str) -> str:
    found = diagnose_log(text.encode())
    return found[0].name if found else ""


def renamed(wrapped: Callable[[str], str]) -> dict[str, tuple[str, str]]:
    pairs = {name: (as_it_was(name), named(wrapped(text))) for name, text in texts().items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_log_with_prefixed_lines_keeps_its_diagnosis(prefix: str) -> None:
    def prefixed(text: str) -> str:
        return "\n".join(prefix + line if line.strip() else line for line in text.split("\n"))

    assert renamed(prefixed) == {}


@pytest.mark.parametrize("collapsed", [False, True], ids=["joined", "collapsed"])
def test_log_with_joined_lines_keeps_its_diagnosis(collapsed: bool) -> None:
    def joined(text: str) -> str:
        return " ".join(text.split() if collapsed else text.split("\n"))

    assert set(renamed(joined)) <= set(NOT_WHEN_JOINED)


def test_indented_traceback_in_a_plain_log_is_recognised() -> None:
    block = 'Traceback (most recent call last):\n  File "train.py", line 2, in <module>\n    x["a"]\nKeyError: \'a\'\n'
    indented = "".join(f"        {line}\n" for line in block.splitlines())
    assert named(f"Here is what I get:\n\n{indented}\nThanks.\n") == "unrelated"


@pytest.mark.parametrize("prefix", ["ERROR:root:", "2024-01-01 00:00:00,123 - root - ERROR - "])
def test_prefix_of_an_ordinary_logger_message_is_kept(prefix: str) -> None:
    from oomph.explain.reading.original_lines import without_prefixes

    assert without_prefixes(f"{prefix}the reader has stopped")[0] == f"{prefix}the reader has stopped"
