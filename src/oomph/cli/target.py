"""Interprets the target of `oomph explain`: finds the run of a file, and suggests what an unknown word may mean."""

from __future__ import annotations

import re
from pathlib import Path

from oomph.errors import ExamineError, UsageError
from oomph.faults.catalogue.catalogue import load
from oomph.faults.diagnose import diagnose_log
from oomph.faults.reading.run_folder import is_run

_CODE = re.compile(r"[A-Za-z]{3}\d{3}\Z")
_PATH = re.compile(r"[/\\.]")
_STATUS = re.compile(r"\d{1,3}\Z")
_XID = re.compile(r"xid[ :#=_-]*(\d{1,3})\Z", re.IGNORECASE)
_DOCUMENTS = ("run.json", "summary.json")
_SHOWN = 200


def run_of(target: str) -> str:
    """The run directory, if the target is one of its documents or journals; else the target itself."""
    path = Path(target)
    of_journal = path.parent.name == "journal" and path.suffix == ".jsonl"
    if path.name not in _DOCUMENTS and not of_journal:
        return target
    run = path.parent.parent if of_journal else path.parent
    try:
        return str(run) if path.is_file() and is_run(run) else target
    except OSError:
        return target  # reading it will report the error


def unknown(target: str) -> UsageError | ExamineError:
    """The error for a target that is not a file, run or fault."""
    if _CODE.match(target):
        codes = ", ".join(fault.code for fault in load())
        return UsageError(f"there is no fault {target}; there are {codes}")
    shown = target if len(target) <= _SHOWN else target[:_SHOWN] + "..."
    if _PATH.search(target):
        return ExamineError(f"there is no file or directory {shown!r}")
    return ExamineError(f"there is no file, run or fault {shown!r}{_hint(target)}")


def _hint(target: str) -> str:
    status, xid = _status(target), _XID.match(target)
    if status is not None:
        return f"; for a program that ended with it, type oomph explain --exit-status={status}"
    if xid is not None:
        return _page_of_xid(int(xid[1]))
    import difflib  # for a mistyped word only

    close = difflib.get_close_matches(target, [fault.name for fault in load()], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _status(target: str) -> int | None:
    """The exit status that the target means: a possible number, or the name of a signal."""
    if _STATUS.match(target) and int(target) < 256:
        return int(target)
    import signal  # only for signal names

    number = getattr(signal, target.upper(), None) if target.upper().startswith("SIG") else None
    return 128 + number.value if isinstance(number, signal.Signals) else None


def _page_of_xid(code: int) -> str:
    """A hint to the fault of this Xid in the kernel's log."""
    from oomph.faults.reading.kernel_log import ORIGIN  # which can start processes

    line = f"NVRM: Xid (PCI:0000:01:00): {code}, pid=1, name=python\n".encode()
    found = diagnose_log(line, origin=ORIGIN)
    return f"; for Xid {code} in the kernel's log, type oomph explain {found[0].code}" if found else ""
