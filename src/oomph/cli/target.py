"""Interprets the target of `oomph explain`: a run's file, an exit status, text, or an unknown word."""

from __future__ import annotations

import os
import re
import stat
import sys

from oomph.errors import ExamineError, UsageError
from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose_log
from oomph.files.patterns import lazy_pattern

_CODE = lazy_pattern(r"[A-Za-z]{3}\d{3}\Z")
_PATH = lazy_pattern(r"[/\\.]")
_BLANK = lazy_pattern(r"\s")
_STATUS = lazy_pattern(r"\d{1,3}\Z")
_XID = lazy_pattern(r"xid[ :#=_-]*(\d{1,3})\Z", re.IGNORECASE)
_FILE_NAME = lazy_pattern(r"[\w-]\.(?:log|txt|out|err|json)\Z", re.IGNORECASE)
_SHOWN = 200
_PIPE_IT = "To explain text, pipe it in: python train.py 2>&1 | oomph explain"


def is_piped() -> bool:
    """True if standard input is a pipe or a file, as in `python train.py 2>&1 | oomph explain`."""
    try:
        mode = os.fstat(0 if sys.stdin is None else sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False  # standard input is closed
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def status_of(target: str) -> int | None:
    """Return the exit status if the target is a valid number or the name of a signal, or None otherwise."""
    if _STATUS.match(target) and int(target) < 256:
        return int(target)
    import signal  # only for the name of a signal

    number = getattr(signal, target.upper(), None) if target.upper().startswith("SIG") else None
    return 128 + number.value if isinstance(number, signal.Signals) else None


def is_text(target: str) -> bool:
    """True if the target is a line from a log: a signature matches it, and it does not look like a file name."""
    if _FILE_NAME.search(target) or (_PATH.search(target) and not _BLANK.search(target)):
        return False
    found = diagnose_log(target.encode(errors="replace"))
    return any(signature.alone for diagnosis in found for signature in diagnosis.signatures)


def unknown(target: str) -> UsageError | ExamineError:
    """Return the error for a target that is neither a file nor a run nor a fault."""
    if _CODE.match(target):
        return UsageError(f"unknown fault {target}; {_codes_beside(target)}")
    shown = target if len(target) <= _SHOWN else target[:_SHOWN] + "..."
    if os.path.islink(target):
        return ExamineError(f"{shown!r} is a link to {os.readlink(target)!r}, which does not exist")
    if _PATH.search(target):
        return ExamineError(f"there is no file or directory {shown!r}")
    problem = f"there is no file, run or fault {shown!r}{_hint(target)}"
    return ExamineError(f"{problem}{'' if problem.endswith('?') else '.'} {_PIPE_IT}")


def _hint(target: str) -> str:
    xid = _XID.match(target)
    if xid is not None:
        return _page_of_xid(int(xid[1]))
    codes = [fault.code for fault in load() if fault.code.startswith(target.upper())]
    if codes:
        return f"; did you mean one of {', '.join(codes)}?"
    import difflib  # only for a mistyped word

    close = difflib.get_close_matches(target, [fault.name for fault in load()], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _codes_beside(code: str) -> str:
    """List the codes with the same prefix as this one, or else the prefixes of all codes."""
    codes = [fault.code for fault in load()]
    beside = [each for each in codes if each[:3] == code[:3].upper()]
    if beside:
        return f"there are {', '.join(beside)}"
    return f"codes begin with {', '.join(sorted({each[:3] for each in codes}))}"


def _page_of_xid(code: int) -> str:
    """Return a hint with the fault code for this Xid, or "" if there isn't one."""
    from oomph.explain.reading.kernel_log import ORIGIN  # imported late, since it can start processes

    line = f"NVRM: Xid (PCI:0000:01:00): {code}, pid=1, name=python\n".encode()
    found = diagnose_log(line, origin=ORIGIN)
    return f"; for Xid {code} in the kernel log, type oomph explain {found[0].code}" if found else ""


_FIRST_SIGNAL_CODE = 128
_MEANT = {
    75: "oomph run exits with 75 when starting again elsewhere or later may help.\n"
    "Next: oomph run --resume SCRIPT  (resumes from its last checkpoint)",
    93: "oomph run exits with 93 when another start would only hit the same fault again.\n"
    "Next: oomph explain RUN  (shows which fault it was, and what to do)",
    124: "The command timeout exits with 124 when the program ran longer than allowed.",
    126: "A shell exits with 126 when it is not allowed to execute the program.",
    127: "A shell exits with 127 when it cannot find the program.",
    130: "SIGINT, 130 in a shell: somebody pressed Ctrl-C.",
    138: "SIGUSR1, 138 in a shell: a scheduler warned that the job will end, but the program has no handler for it.",
    140: "SIGUSR2, 140 in a shell: the program has no handler for it. oomph run saves on SIGTERM and SIGUSR1, not on"
    " SIGUSR2.",
    143: "SIGTERM, 143 in a shell: a scheduler, a container or a user asked the program to stop.",
}
_NOT_WHY = "The number says that the program failed, not why.\nNext: oomph explain LOG --exit-status={}"


def meaning(status: int) -> str:
    """Explain an exit status, and suggest the next command if there is one; return "" for success.

    Args:
        status: an exit code, or −n if signal n killed the program.
    """
    if status == 0:
        return ""
    code = _FIRST_SIGNAL_CODE - status if status < 0 else status
    return _MEANT.get(code) or _NOT_WHY.format(status)
