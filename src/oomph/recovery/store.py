"""CheckpointStore: states on disk, written whole or not at all, verified before they are used. Standard library only.

A checkpoint is a folder: `manifest.json` (what it is, and the table of its tensors), `tensors.bin` (their bytes, one
after the other), any files of the input pipeline, and `SHA256SUMS` over all of them in the format of `sha256sum -c`. It
is written under a temporary name, flushed to the disk, and renamed; nothing in it is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from oomph.errors import CheckpointError

SCHEMA = 1
KEEP = 2
_SUMS = "SHA256SUMS"
_MANIFEST = "manifest.json"
_TENSORS = "tensors.bin"
_STEP = re.compile(r"step-(\d{6,})-fit(\d+)-epoch(\d+)-step(\d+)")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Position:
    """The next step of a run: which fit, which epoch, which step of it, and how many steps came before in all."""

    fit: int
    epoch: int = 0
    step: int = 0
    steps: int = 0


@dataclass(frozen=True)
class TensorEntry:
    """One array in `tensors.bin`: row-major bytes of `dtype` (NumPy's name for it) from `offset` on."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Checkpoint:
    """One verified checkpoint on disk."""

    path: Path
    position: Position
    meta: dict[str, Any]
    tensors: tuple[TensorEntry, ...]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.name

    def read(self) -> Iterator[tuple[TensorEntry, bytes]]:
        """The bytes of each tensor, one at a time; raises CheckpointError when they have gone since."""
        try:
            with (self.path / _TENSORS).open("rb") as file:
                for entry in self.tensors:
                    file.seek(entry.offset)
                    yield entry, file.read(entry.nbytes)
        except OSError as error:
            raise CheckpointError(f"{_TENSORS}: {error.strerror}") from error


@dataclass(frozen=True)
class Saved:
    """A checkpoint just written."""

    name: str
    nbytes: int


class CheckpointWriter:
    """The open folder of a checkpoint that is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[TensorEntry] = []
        self._file: BinaryIO = (folder / _TENSORS).open("wb")
        self._offset = 0

    def add(self, name: str, dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> None:
        """Append one array; only one is in memory at a time."""
        size = memoryview(data).nbytes
        self._file.write(data)
        self.entries.append(TensorEntry(name, dtype, tuple(shape), self._offset, size))
        self._offset += size

    def close(self) -> None:
        """Close the file of tensors."""
        self._file.close()


class CheckpointStore:
    """The checkpoints of one run. One writer: the owner process of the attempt that holds the run's lock.

    Args:
        root: `DIR/checkpoints`.
        refused: told the name and the reason of every checkpoint that does not verify.
    """

    def __init__(self, root: Path, refused: Callable[[str, str], None] = lambda name, reason: None) -> None:
        self._root = root
        self._refused = refused
        self._number = 0

    def open(self) -> None:
        """Create the folder and clear away what a killed writer left; raises CheckpointError."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            for leftover in self._root.glob("tmp-*"):
                shutil.rmtree(leftover, ignore_errors=True)
        except OSError as error:
            raise CheckpointError(f"{self._root}: {error.strerror}") from error
        numbers = [int(match[1]) for path in self._root.iterdir() if (match := _STEP.search(path.name))]
        self._number = max(numbers, default=0)

    def save_step(self, at: Position, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        """Write a checkpoint to resume from within a fit; older ones beyond the last two go. Raises CheckpointError."""
        self._number += 1
        name = f"step-{self._number:06d}-fit{at.fit}-epoch{at.epoch}-step{at.step}"
        saved = self._save(name, at, meta, write)
        for old in self._steps()[:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)
        return saved

    def save_finished(self, at: Position, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        """Write the end state of a fit; it is kept for as long as the run may restart. Raises CheckpointError."""
        return self._save(f"finished-fit{at.fit}", at, meta, write)

    def latest_step(self) -> Checkpoint | None:
        """The newest checkpoint that verifies. Those that do not are put aside and reported."""
        for path in reversed(self._steps()):
            checkpoint = self._verified(path)
            if checkpoint is not None:
                return checkpoint
        return None

    def finished(self, fit: int) -> Checkpoint | None:
        """The end state of a fit that an earlier attempt finished, if it is there and verifies."""
        path = self._root / f"finished-fit{fit}"
        return self._verified(path) if path.is_dir() else None

    def drop_steps(self, fit: int) -> None:
        """Remove the checkpoints within a fit, and within those before it: it has its end state."""
        for path in self._steps():
            match = _STEP.fullmatch(path.name)
            if match is not None and int(match[2]) <= fit:
                shutil.rmtree(path, ignore_errors=True)

    # -- on disk --------------------------------------------------------------------------------------------------

    def _steps(self) -> list[Path]:
        try:
            found = [(match, path) for path in self._root.iterdir() if (match := _STEP.fullmatch(path.name))]
        except OSError:
            return []
        return [path for _, path in sorted(found, key=lambda pair: int(pair[0][1]))]

    def _save(self, name: str, at: Position, meta: dict[str, Any], write: Callable[[CheckpointWriter], None]) -> Saved:
        folder = self._root / f"tmp-{name}-{os.getpid()}"
        try:
            folder.mkdir(parents=True)
            writer = CheckpointWriter(folder)
            try:
                write(writer)
            finally:
                writer.close()
            manifest = {"schema": SCHEMA, "position": asdict(at), "meta": meta}
            manifest["tensors"] = [asdict(entry) for entry in writer.entries]
            (folder / _MANIFEST).write_text(json.dumps(manifest, separators=(",", ":")))
            size = _seal(folder)
            _replace(folder, self._root / name)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise CheckpointError(f"{error.strerror or error} (checkpoint {name})") from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return Saved(name, size)

    def _verified(self, path: Path) -> Checkpoint | None:
        try:
            return read_checkpoint(path)
        except CheckpointError as error:
            self._refused(path.name, str(error))
            try:
                path.rename(path.with_name(f"refused-{path.name}"))
            except OSError:
                pass  # it stays where it is, and is refused again next time
            return None


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder, every byte of it compared with its checksum; raises CheckpointError."""
    try:
        _compare_sums(path)
        manifest = json.loads((path / _MANIFEST).read_text())
        if manifest["schema"] != SCHEMA:
            raise CheckpointError(f"format {manifest['schema']}, this oomph reads format {SCHEMA}")
        tensors = tuple(TensorEntry(**{**entry, "shape": tuple(entry["shape"])}) for entry in manifest["tensors"])
        return Checkpoint(path, Position(**manifest["position"]), manifest["meta"], tensors)
    except OSError as error:
        raise CheckpointError(f"{Path(error.filename or path).name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{_MANIFEST} is not one of ours ({error})") from error


def _seal(folder: Path) -> int:
    """Write the checksums and flush everything to the disk; returns the bytes of the checkpoint."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    lines = [f"{_digest(path)}  {path.name}\n" for path in files]
    (folder / _SUMS).write_text("".join(lines))
    for path in [*files, folder / _SUMS, folder]:
        _flush(path)
    return sum(path.stat().st_size for path in files)


def _compare_sums(folder: Path) -> None:
    listed = {}
    for line in (folder / _SUMS).read_text().splitlines():
        digest, separator, name = line.partition("  ")
        if not separator or "/" in name or len(digest) != 64:
            raise CheckpointError(f"{_SUMS} is damaged")
        listed[name] = digest
    if not {_MANIFEST, _TENSORS} <= set(listed):
        raise CheckpointError(f"{_SUMS} is damaged")
    for name, digest in listed.items():
        if _digest(folder / name) != digest:
            raise CheckpointError(f"{name} does not match its checksum")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _replace(folder: Path, target: Path) -> None:
    """Give the folder its final name; an older checkpoint of that name is moved away first."""
    if target.exists():
        shutil.rmtree(target)
    os.rename(folder, target)
    _flush(target.parent)
