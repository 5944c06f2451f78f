"""The parent's ends of the two pipes: reports from the script's processes, and turns for trainings."""

from __future__ import annotations

import os

from oomph.errors import UsageError
from oomph.reach.channel import EXAMINE, TRAIN
from oomph.reach.handover import End, ReachHandover
from oomph.reach.request import ReachRequest

MOST_FITS = 10_000
"""The largest number of a training to examine: a turn is a byte in a pipe, which holds 64 KiB."""
_CHUNK = 1 << 16


class Pipes:
    """Both pipes, with a turn for each training up to the one to examine.

    Args:
        fit: the number of that training; raises UsageError beyond MOST_FITS.
    """

    def __init__(self, fit: int) -> None:
        if not 1 <= fit <= MOST_FITS:
            raise UsageError(f"--fit takes a number from 1 to {MOST_FITS}, not {fit}")
        self.report_fd, self._report_write_fd = os.pipe()
        self._turns_fd, self._turns_write_fd = os.pipe()
        os.set_blocking(self.report_fd, False)
        os.set_blocking(self._turns_fd, False)
        os.write(self._turns_write_fd, TRAIN * (fit - 1) + EXAMINE)
        self._rest = b""

    @property
    def script_fds(self) -> tuple[int, int]:
        """The descriptors that the script inherits."""
        return self._report_write_fd, self._turns_fd

    def handover(self, request: ReachRequest) -> ReachHandover:
        """The handover of the pipes to the script's processes."""
        return ReachHandover(
            parent=os.getpid(),
            report=End(self._report_write_fd, os.fstat(self._report_write_fd).st_ino),
            turns=End(self._turns_fd, os.fstat(self._turns_fd).st_ino),
            examiner=request.examiner,
            arguments=request.arguments,
        )

    def lines(self) -> list[bytes]:
        """The complete lines that have arrived."""
        data = self._rest
        try:
            while chunk := os.read(self.report_fd, _CHUNK):
                data += chunk
        except BlockingIOError:
            pass  # all of it has been read
        *lines, self._rest = data.split(b"\n")
        return lines

    def close(self) -> None:
        """Close both pipes."""
        for fd in (self.report_fd, *self.script_fds, self._turns_write_fd):
            os.close(fd)
