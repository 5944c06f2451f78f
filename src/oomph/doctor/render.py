"""Formats the findings as text, and as the JSON document for `oomph doctor --json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from oomph.doctor.check import FAIL, PASS, SKIP, WARN
from oomph.doctor.commands import export
from oomph.doctor.examine import DoctorResult, verdict
from oomph.doctor.repairs import Repair, repairs
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.catalogue import PAGES
from oomph.terminal.amounts import counted
from oomph.terminal.message import shown_line
from oomph.terminal.screen import CYAN, GREEN, RED, USUAL_WIDTH, YELLOW, Heads
from oomph.terminal.wrapping import wrapped

SCHEMA = 1
_NO_GPU = "gpu-present"
_BECAME = {PASS: "passed", FAIL: "failed", WARN: "with a warning", SKIP: "not applicable", "blind": "could not run"}
HEADS: Heads = {"FAIL": RED, "WARN": YELLOW, "?": YELLOW, "note": CYAN, "Ready:": GREEN, "Not ready:": RED}


def as_text(snapshot: Snapshot, results: Sequence[DoctorResult], width: int = USUAL_WIDTH) -> str:
    """Format the problems, warnings, checks that could not run, and notes, followed by the verdict."""
    lines: list[str] = []
    for status in (FAIL, WARN):
        for result in results:
            if result.finding.status == status:
                lines += [*problem(result, width), ""]
    lines += [_could_not(result, width) for result in results if result.finding.blind]
    lines += [_note(result, width) for result in results if result.finding.note and not _in_verdict(snapshot, result)]
    lines += [*([""] if lines and lines[-1] else []), _wrapped(_took(snapshot, results), width, "  ")]
    lines.append(_wrapped(verdict(snapshot, results), width, "  ", _first_command(results)))
    return "\n".join(lines) + "\n"


def as_document(snapshot: Snapshot, results: Sequence[DoctorResult]) -> dict[str, Any]:
    """Return the findings as a JSON document. Its structure is part of the public interface."""
    return {
        "schema": SCHEMA,
        "checks": [entry(result) for result in results],
        "verdict": verdict(snapshot, results),
        "seconds": snapshot.seconds,
        "cuinit_seconds": snapshot.driver.init_seconds,
        "repairs": [{"variable": each.variable, "value": each.value, "why": each.why} for each in repairs(snapshot)],
    }


def as_exports(mended: Sequence[Repair], snapshot: Snapshot) -> str:
    """Format the repairs as shell commands to evaluate: `eval "$(oomph doctor --fix-env)"`."""
    if not mended:
        return "# nothing that environment variables can repair\n"
    lines: list[str] = []
    for repair in mended:
        lines.append(f"# {repair.why}")
        lines.append(export(repair.variable, repair.value) if repair.value is not None else f"unset {repair.variable}")
    lines += _preload(snapshot)
    return "\n".join(lines) + "\n"


def _preload(snapshot: Snapshot) -> list[str]:
    """Return commented-out Python lines that load the libraries in a notebook, which starts too late for variables."""
    lost = [
        copy.path
        for library in snapshot.libraries
        if library.required and library.winner is None
        for copy in library.in_wheels[:1]
    ]
    if not lost:
        return []
    lines = ["# or, if variables come too late (in a notebook), before TensorFlow is imported:", "#   import ctypes"]
    return [*lines, *(f'#   ctypes.CDLL("{path}", ctypes.RTLD_GLOBAL)' for path in lost)]


def entry(result: DoctorResult) -> dict[str, Any]:
    """Return a check and its finding as JSON values."""
    check, finding = result.check, result.finding
    return {
        "code": check.code,
        "name": check.name,
        "status": finding.status,
        "message": finding.message,
        "why": check.why,
        "fault": finding.fault,
        "note": finding.note,
        "could_not_check": finding.blind,
        "remedies": [remedy.as_document() for remedy in finding.remedies],
    }


def problem(result: DoctorResult, width: int = USUAL_WIDTH) -> Iterator[str]:
    """Yield the lines that describe a problem: what was found, why it matters, and what to do."""
    check, finding = result.check, result.finding
    yield _wrapped(f"{finding.status.upper():5} {check.name} ({check.code}): {finding.message}", width, "      ")
    yield _wrapped(f"      why   {check.why}", width, " " * 12)
    for remedy in finding.remedies:
        by_itself = " [oomph run does this for you]" if remedy.action else ""
        yield _wrapped(f"      fix   {remedy.text}.{by_itself}", width, " " * 12)
        if remedy.command:
            yield f"              {remedy.command}"
        if remedy.changes:
            yield _wrapped(f"            changes: {remedy.changes}", width, " " * 12)
    if finding.fault and has_page(finding.fault):
        yield f"      more  oomph explain {finding.fault}"


def _could_not(result: DoctorResult, width: int) -> str:
    return _wrapped(f"?     {result.check.name} ({result.check.code}): {result.finding.message}", width, "      ")


def _note(result: DoctorResult, width: int) -> str:
    finding = result.finding
    command = next((remedy.command for remedy in finding.remedies if remedy.command), "")
    advice = f" ({finding.remedies[0].text}{': ' * bool(command)}{command})" if finding.remedies else ""
    return _wrapped(
        f"note  {result.check.name} ({result.check.code}): {finding.message}{advice}", width, "      ", command
    )


def _in_verdict(snapshot: Snapshot, result: DoctorResult) -> bool:
    return result.check.name == _NO_GPU and not snapshot.gpu_wanted


def _took(snapshot: Snapshot, results: Sequence[DoctorResult]) -> str:
    driver = snapshot.driver
    of_it = f", of which cuInit {driver.init_seconds:.2f} s" if driver.init_seconds is not None else ""
    return f"{_counted(results)}, in {snapshot.seconds:.2f} s{of_it}"


def _counted(results: Sequence[DoctorResult]) -> str:
    """Describe how many checks there were, and how many had each outcome. The numbers add up."""
    became = Counter("blind" if result.finding.blind else result.finding.status for result in results)
    words = ", ".join(f"{became[how]} {_BECAME[how]}" for how in _BECAME if became[how])
    return f"{counted(len(results), 'check')}: {words}"


def has_page(fault: str) -> bool:
    """True if the catalogue has a page for this fault. The pages themselves are not read."""
    return any(PAGES.glob(f"*/*-{fault}.md"))


def _first_command(results: Sequence[DoctorResult]) -> str:
    """Return the command of the first failure's first remedy, for the verdict; empty if there is none."""
    remedies = [result.finding.remedies for result in results if result.finding.status == FAIL]
    return remedies[0][0].command if remedies and remedies[0] else ""


def _wrapped(text: str, width: int, indent: str, command: str = "") -> str:
    """Wrap text. Clean it first: it may contain anything, and wrapping could separate a key from its name."""
    return wrapped(shown_line(text), width, indent, command=shown_line(command))
