"""A captured number is always a whole number from the log, never the tail of a longer one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import Fault, Signature
from oomph.explain.diagnose import diagnose_log

GLUED = "0.98765"
"""The end of a progress bar, without a line break before the next message."""
CUT = re.compile(r"(?<=[\d.])\d")


def captured(line: str) -> dict[str, str]:
    return dict(diagnose_log(line.encode())[0].captured)


@pytest.mark.parametrize(
    "line",
    [
        "45/100 loss: 2.5 acc 0.71234 Killed",
        "45/100 - loss: 2.1371Killed",
        "45/100 - loss: 2.1371 Killed                  python train.py",
        "45/100 - loss: 2.1371Killed                  python train.py",
    ],
)
def test_progress_bar_numbers_are_not_mistaken_for_a_pid(line: str) -> None:
    assert diagnose_log(line.encode())[0].name == "killed"
    assert "pid" not in captured(line)


@pytest.mark.parametrize(
    "line",
    [
        "[1]+  1234 Killed                  python train.py",
        "[1]   1234 Killed                  python train.py",
        "train.sh: line 3:  1234 Killed                  python train.py",
        "45/100 - loss: 2.1371train.sh: line 3:  1234 Killed                  python train.py",
        "45/100 - loss: 2.1371[1]+  1234 Killed                  python train.py",
        "Out of memory: Killed process 1234 (python) total-vm:9kB, anon-rss:7kB",
        "./train.sh: 60: 1234 killed                  python train.py",
    ],
)
def test_process_id_is_captured_from_shell_and_kernel_lines(line: str) -> None:
    assert captured(line)["pid"] == "1234"


@pytest.mark.parametrize("fault", load(), ids=lambda fault: fault.code)
def test_no_signature_captures_part_of_a_number(fault: Fault) -> None:
    cut = [
        f"{name} = {match[name]!r} in {match.string!r}"
        for signature in fault.signatures
        for line in _lines(fault)
        for match in _matches(signature, line)
        for name, value in match.groupdict().items()
        if value and value[:1].isdigit() and _is_cut(match, name)
    ]
    assert not cut, "\n".join(cut)


def _lines(fault: Fault) -> Iterator[str]:
    """Yield the real lines of a page: its example, and the comment above each signature."""
    yield from fault.example.split("\n")
    yield from re.findall(r"^# (.+)$", fault.text, re.MULTILINE)


def _matches(signature: Signature, line: str) -> Iterator[re.Match[str]]:
    """Yield the matches in the line as it is, after a number, and with extra digits in front of each of its numbers."""
    if not signature.pattern:
        return
    pattern = re.compile(signature.pattern)
    changed = [line[: n.start()] + GLUED + line[n.start() :] for n in re.finditer(r"\d+", line)]
    for text in dict.fromkeys([line, GLUED + line, f"{GLUED} {line}", *changed]):
        if (match := pattern.search(text)) is not None:
            yield match


def _is_cut(match: re.Match[str], name: str) -> bool:
    """True if it starts inside a number that no other group captures as a whole, as a version captures its parts."""
    start = match.start(name)
    others = (match.span(other) for other in match.groupdict() if other != name)
    return CUT.match(match.string, start) is not None and not any(first < start < last for first, last in others)
