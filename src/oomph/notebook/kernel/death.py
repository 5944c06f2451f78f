"""A kernel's death, which the supervisor leaves in `cells/death` of the run directory for the next kernel to report.

Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from oomph.files.opening import open_folder, read_own, replace_own
from oomph.notebook.kernel.record import CELLS, ExecuteRequest, KernelRecord
from oomph.protocol.progress import Progress
from oomph.protocol.python_stacks import crashed_at
from oomph.terminal.endings import ProcessEnd

DEATH = f"{CELLS}/death"
_SCHEMA = 1
_MOST_BYTES = 16 << 20
_MOST_SECONDS = 300.0
"""The age up to which a death is reported: a kernel may start slowly, but a later session did not see it."""


@dataclass(frozen=True)
class Death:
    """The unrequested end of a kernel process, and the requests that it left unanswered."""

    lines: tuple[str, ...]
    """The diagnosis, at most three lines."""
    count: int
    """The number that the next cell gets."""
    running: ExecuteRequest | None
    queued: tuple[ExecuteRequest, ...]

    def to_json(self) -> bytes:
        """Return the death as the contents of its file."""
        return json.dumps({"schema": _SCHEMA, **asdict(self)}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Death:
        """Read a death. Raises ValueError if the file is damaged."""
        try:
            data = json.loads(text)
            running = data["running"]
            return cls(
                lines=tuple(map(str, data["lines"])),
                count=int(data["count"]),
                running=None if running is None else ExecuteRequest.from_data(running),
                queued=tuple(map(ExecuteRequest.from_data, data["queued"])),
            )
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"the death of a kernel is damaged: {error}") from error


def leave_behind(root: Path, death: Death) -> None:
    """Leave the death for the next kernel. Raises OSError if that fails."""
    replace_own(root, DEATH, death.to_json())


def take(root: Path) -> Death | None:
    """Return the recent death that this kernel has to report, or None. Of several kernels, only one receives it."""
    try:
        found = Death.from_json(read_own(root, DEATH, _MOST_BYTES)) if _is_recent(root / DEATH) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        found = None  # unreadable: removed below without a report
    folder = open_folder(root / CELLS)
    try:
        os.unlink("death", dir_fd=folder)
    except FileNotFoundError:
        return None  # another kernel has taken it
    finally:
        os.close(folder)
    return found


def _is_recent(path: Path) -> bool:
    """True if the client that waits for the answer may still be there. Raises FileNotFoundError if there is no file."""
    return abs(time.time() - os.lstat(path).st_mtime) < _MOST_SECONDS


def told(
    returncode: int,
    cause: str,
    progress: Progress | None,
    record: KernelRecord | None,
    stacks: str = "",
    hung: bool = False,
) -> tuple[str, ...]:
    """Return the diagnosis in at most three lines: what ended the kernel, where the training was, what to do.

    Args:
        returncode: how the kernel ended, as in `subprocess`.
        cause: a sentence about the fault, or an empty string if nothing is known.
        progress: the position of the training that was interrupted, if one was.
        record: what the kernel had run.
        stacks: what it wrote if it crashed.
        hung: True if it was stopped because it made no progress.
    """
    how = "made no progress and was stopped" if hung else ProcessEnd(returncode).predicate
    first = f"The kernel {how}{crashed_at(stacks)}. {cause}".rstrip()
    training = "" if progress is None else f"The training was {progress.in_words}."
    return tuple(line for line in (first, training, _again(record, progress)) if line)


def _again(record: KernelRecord | None, progress: Progress | None) -> str:
    """Say which cells to run again, since their variables died with the kernel."""
    if record is None:
        return ""
    last = record.next_count - 1
    if last < record.first:
        return ""
    between = "and" if last == record.first + 1 else "to"
    cells = f"cell [{last}]" if last == record.first else f"cells [{record.first}] {between} [{last}]"
    resumes = "; the training resumes from its checkpoint" if progress is not None and progress.saved else ""
    return f"Its variables are gone: run {cells} again{resumes}."
