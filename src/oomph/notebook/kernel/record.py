"""The record of what a kernel executes, which survives the kernel: `cells/current` in the run directory.

The kernel replaces the file when a request arrives, before each execution, and after it. The file holds neither the
cell's source nor the key of the connection. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oomph.files.opening import make_own_folder, open_folder, read_own

CELLS = "cells"
CURRENT = f"{CELLS}/current"
SCHEMA = 1
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class ExecuteRequest:
    """One execute request that has not been answered."""

    header: Mapping[str, Any]
    """The header of the message, which the answer names as its parent."""
    identities: tuple[str, ...]
    """The routing identities of the client, in hexadecimal."""
    cell_id: str = ""
    """The cell's id in the notebook, or an empty string if the client doesn't send it."""
    code_hash: str = ""
    count: int = 0
    """The number of the cell, or 0 if it is still waiting or gets none, like a silent request."""

    @classmethod
    def from_data(cls, data: Any) -> ExecuteRequest:
        """Read a request. Raises ValueError if it is damaged."""
        try:
            return cls(
                header=dict(data["header"]),
                identities=tuple(bytes.fromhex(each).hex() for each in data["identities"]),
                cell_id=str(data["cell_id"]),
                code_hash=str(data["code_hash"]),
                count=int(data["count"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the request is damaged: {error}") from error


@dataclass(frozen=True)
class KernelRecord:
    """The cells that one kernel process has executed, is executing, and has yet to execute."""

    pid: int
    first: int = 1
    """The number of the first cell of this process."""
    count: int = 1
    """The number of the next cell, or of the one that is running."""
    done: int = 0
    """The number of requests that this process has executed."""
    running: ExecuteRequest | None = None
    queued: tuple[ExecuteRequest, ...] = field(default=())

    def to_json(self) -> bytes:
        """Return the record as the contents of its file."""
        running = None if self.running is None else vars(self.running)
        document = {"schema": SCHEMA, **vars(self), "running": running, "queued": [vars(each) for each in self.queued]}
        return json.dumps(document, default=_as_text).encode()  # asdict would copy each header before every cell

    @classmethod
    def from_json(cls, text: bytes) -> KernelRecord:
        """Read a record. Raises ValueError if it is damaged."""
        try:
            return cls.from_data(json.loads(text))
        except RecursionError as error:
            raise ValueError("the record is nested too deeply") from error

    @classmethod
    def from_data(cls, data: Any) -> KernelRecord:
        """Read a record. Raises ValueError if it is damaged."""
        try:
            running = data["running"]
            return cls(
                pid=int(data["pid"]),
                first=int(data["first"]),
                count=int(data["count"]),
                done=int(data["done"]),
                running=None if running is None else ExecuteRequest.from_data(running),
                queued=tuple(map(ExecuteRequest.from_data, data["queued"])),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the record is damaged: {error}") from error

    @property
    def next_count(self) -> int:
        """The number of the first cell of the next process."""
        running = self.running is not None and self.running.count > 0
        return self.count + 1 if running else self.count


def read_record_of(root: Path, pid: int) -> KernelRecord | None:
    """Return the record of this kernel process, or None if it never wrote one, that is, never became ready."""
    try:
        found = KernelRecord.from_json(read_own(root, CURRENT, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    return found if found.pid == pid else None


class RecordFile:
    """Replaces the record atomically. It need not wait for the disk, since only the process is expected to die."""

    def __init__(self, root: Path) -> None:
        make_own_folder(root, CELLS)
        self._folder = open_folder(root / CELLS)

    def write(self, record: KernelRecord) -> None:
        """Replace the record. Raises OSError if that fails."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open("current.partial", flags, 0o600, dir_fd=self._folder)
        try:
            os.write(fd, record.to_json())
        finally:
            os.close(fd)
        os.replace("current.partial", "current", src_dir_fd=self._folder, dst_dir_fd=self._folder)


def _as_text(value: object) -> str:
    """Return the date in a header in the format of the message."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
