"""Reads and writes one checkpoint: the state of a fit or loop in a folder, with checksums of every byte.

The folder contains `manifest.json` (metadata and the tensor table), `tensors.bin` (the tensors' bytes, one tensor after
another), any files of the input pipeline, `SHA256SUMS` for all of these in the format of `sha256sum -c`, and a seal
(`origin.py`). Nothing is ever unpickled. Runs in the script process; the supervisor only reads manifests. Standard
library only.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from oomph import __version__, testing
from oomph.checkpoint.manifest import (
    Meta,
    bytes_read_at_once,
    meta_trouble,
    missing_tensor,
    position_trouble,
    tensors_trouble,
)
from oomph.checkpoint.origin import seal_of
from oomph.errors import CheckpointError
from oomph.files.opening import FILE_MODE, open_own, read_own, replace_own
from oomph.process.available_memory import available_bytes

SCHEMA = 1
_SUMS = "SHA256SUMS"
_SEAL, _SEAL_BYTES = "SEAL", 64
_PROOFS = (_SUMS, _SEAL)
_MANIFEST = "manifest.json"
TENSORS = "tensors.bin"
_CHUNK = 1 << 20
_MOST_OF_MANIFEST, _MOST_PARTS = 64 << 20, 1 << 21
"""The limits on a manifest, in bytes and JSON values: parsing one may take 20 times its size in memory."""
_MOST_OF_SUMS = 1 << 22
_SURELY_THERE = 1 << 30
"""Contents of up to this many bytes are read without checking the available memory."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_NO_FLUSH_OF_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR)
"""The errors to ignore when fsync fails on a folder, as on network file systems: its files are already flushed."""


class FormatError(CheckpointError):
    """Raised for a checkpoint in a format that this version of oomph cannot read; another version might."""


@dataclass(frozen=True)
class Position:
    """The position of a run's next step: fit, epoch, step in the epoch, and the number of earlier steps in the run."""

    fit: int
    epoch: int = 0
    step: int = 0
    steps: int = 0


@dataclass(frozen=True)
class TensorEntry:
    """One array in `tensors.bin`: its bytes in row-major order start at `offset`; `dtype` is its NumPy dtype's name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint on disk."""

    path: Path
    position: Position
    meta: Meta
    tensors: tuple[TensorEntry, ...]

    @property
    def name(self) -> str:
        """The name of the checkpoint's folder."""
        return self.path.name

    def read(self, tensors: Iterable[TensorEntry] | None = None) -> Iterator[tuple[TensorEntry, bytes]]:
        """Yield each of these tensors, or all by default, with its bytes. Raises CheckpointError if reading fails."""
        try:
            with _reading(self.path, TENSORS) as file:
                for entry in self.tensors if tensors is None else tensors:
                    file.seek(entry.offset)
                    yield entry, file.read(entry.nbytes)
        except OSError as error:
            raise CheckpointError(f"{TENSORS}: {error.strerror}") from error


class CheckpointWriter:
    """Writes a checkpoint's tensors to its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries: list[TensorEntry] = []
        self._file = os.fdopen(open_own(folder, TENSORS, _NEW), "wb")
        self._offset = 0

    def add(self, name: str, dtype: str, shape: tuple[int, ...], data: bytes | memoryview) -> None:
        """Append an array; only one array is in memory at a time."""
        injector = testing.active()
        if injector is not None:
            injector.writes_tensor()
        size = memoryview(data).nbytes
        self._file.write(data)
        self.entries.append(TensorEntry(name, dtype, tuple(shape), self._offset, size))
        self._offset += size

    def close(self) -> None:
        """Close the tensor file."""
        self._file.close()


def write_manifest(folder: Path, at: Position, meta: Meta, entries: list[TensorEntry]) -> None:
    """Write the manifest of the checkpoint in a folder."""
    document = {"schema": SCHEMA, "oomph": __version__, "position": asdict(at), "meta": meta.as_data()}
    document["tensors"] = [asdict(entry) for entry in entries]
    text = json.dumps(document, separators=(",", ":"))
    trouble = _too_much(text.encode())
    if trouble is not None:
        raise CheckpointError(f"{trouble}: it could not be read back")
    _write(folder, _MANIFEST, text)


def _manifest_in(folder: Path) -> Any:
    """Read the manifest as JSON, and verify its checksum. Raises OSError or ValueError."""
    content = read_own(folder, _MANIFEST, _MOST_OF_MANIFEST)
    if _sums_in(folder).get(_MANIFEST) != hashlib.sha256(content).hexdigest():
        raise ValueError(f"{_MANIFEST} does not match its checksum")
    trouble = _too_much(content)
    if trouble is not None:
        raise ValueError(trouble)
    return json.loads(content)


def _too_much(manifest: bytes) -> str | None:
    """Return why a manifest is too large to parse, or None if it isn't: parsing may take many times its size."""
    if len(manifest) > _MOST_OF_MANIFEST:
        return f"{_MANIFEST} has {len(manifest)} bytes"
    parts = sum(map(manifest.count, (b",", b"[", b"{")))
    return f"{_MANIFEST} has {parts} values" if parts > _MOST_PARTS else None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the checkpoint in a folder, and verify the checksums of all its files. Raises CheckpointError."""
    try:
        _compare_sums(path)
        manifest = _manifest_in(path)
        if manifest["schema"] != SCHEMA:
            raise FormatError(f"format {manifest['schema']}, {_reads()}")
        return Checkpoint(path, *_what_it_says(manifest), _tensors_in(manifest, path))
    except OSError as error:
        raise CheckpointError(f"{Path(error.filename or path).name}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{_MANIFEST} is not an oomph manifest ({error})") from error


def _what_it_says(manifest: dict[str, Any]) -> tuple[Position, Meta]:
    """Read a checkpoint's position and metadata from its manifest. Raises ValueError if they are invalid."""
    position, meta = manifest["position"], manifest["meta"]
    trouble = position_trouble(position) or meta_trouble(meta, position.get("steps", 0))
    if trouble is not None:
        raise ValueError(trouble)
    return Position(**position), Meta.of(meta)


def _tensors_in(manifest: dict[str, Any], folder: Path) -> tuple[TensorEntry, ...]:
    """Read the tensor table. Raises ValueError for a tensor that is invalid or outside the file."""
    entries = manifest["tensors"]
    trouble = tensors_trouble(entries, (folder / TENSORS).stat().st_size)
    if trouble is not None:
        raise ValueError(trouble)
    needed = bytes_read_at_once(entries)
    if needed > _SURELY_THERE and needed > (available_bytes() or needed):
        raise ValueError(f"its contents other than variables take {needed} bytes, more than the available memory")
    missing = missing_tensor(manifest["meta"], {entry["name"] for entry in entries})
    if missing is not None:
        raise ValueError(f"its tensor {missing} is missing")
    return tuple(TensorEntry(**{**entry, "shape": tuple(entry["shape"])}) for entry in entries)


def seal(folder: Path, key: bytes | None = None) -> tuple[int, dict[str, str]]:
    """Write the checksums and flush everything to disk; return the files' total size in bytes and their checksums.

    Args:
        folder: the checkpoint's folder.
        key: the key for its seal (`origin.py`), or None for a checkpoint without a seal.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in _PROOFS)
    digests = {path.name: _digest(path) for path in files}
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    _write(folder, _SUMS, sums)
    if key is not None:
        _write(folder, _SEAL, seal_of(sums.encode(), key))
    for path in [*files, *(folder / name for name in (_PROOFS if key is not None else (_SUMS,)))]:
        path.chmod(FILE_MODE)  # TensorFlow created some of them
        _flush(path)
    _flush_folder(folder)
    return sum(path.stat().st_size for path in files), digests


def seal_copy(folder: Path, key: bytes) -> None:
    """Seal the copy of a checkpoint that was sealed with another key. Raises OSError."""
    replace_own(folder, _SEAL, seal_of(read_own(folder, _SUMS, _MOST_OF_SUMS), key).encode())


def is_sealed_with(folder: Path, key: bytes) -> bool:
    """True if a checkpoint's seal was made with this key, which means that the checkpoint was written here."""
    try:
        own = seal_of(read_own(folder, _SUMS, _MOST_OF_SUMS), key)
        return hmac.compare_digest(own, read_own(folder, _SEAL, _SEAL_BYTES).decode("ascii"))
    except (OSError, ValueError):
        return False


def _sums_in(folder: Path) -> dict[str, str]:
    """Read the checksums of the files in `SHA256SUMS`, by file name."""
    listed = {}
    for line in read_own(folder, _SUMS, _MOST_OF_SUMS).decode().splitlines():
        digest, separator, name = line.partition("  ")
        if not separator or "/" in name or len(digest) != 64:
            raise CheckpointError(f"{_SUMS} is damaged")
        listed[name] = digest
    return listed


def _compare_sums(folder: Path) -> None:
    listed = _sums_in(folder)
    if not {_MANIFEST, TENSORS} <= set(listed):
        raise CheckpointError(f"{_SUMS} is damaged")
    unlisted = {path.name for path in folder.iterdir()} - {*_PROOFS, *listed}
    if unlisted:
        raise CheckpointError(f"{min(unlisted)} is not in {_SUMS}")
    for name, digest in listed.items():
        if name not in (_MANIFEST, TENSORS) and not (folder / name).exists():
            raise CheckpointError(f"{_SUMS} is damaged, or {name} is missing")
        if _digest(folder / name) != digest:
            raise CheckpointError(f"{name} does not match its checksum")


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with _reading(path.parent, path.name) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _reading(folder: Path, name: str) -> BinaryIO:
    return os.fdopen(open_own(folder, name, os.O_RDONLY), "rb")


def _write(folder: Path, name: str, text: str) -> None:
    with os.fdopen(open_own(folder, name, _NEW), "wb") as file:
        file.write(text.encode())


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush_folder(path: Path) -> None:
    try:
        _flush(path)
    except OSError as error:
        if error.errno not in _NO_FLUSH_OF_FOLDERS:
            raise


def replace(folder: Path, target: Path) -> None:
    """Give the folder its final name, after moving any older checkpoint with that name out of the way."""
    older = target.with_name(f"tmp-older-{target.name}-{os.getpid()}")
    if target.exists():
        os.rename(target, older)
    try:
        os.rename(folder, target)
    except OSError:
        if older.exists():
            os.rename(older, target)
        raise
    shutil.rmtree(older, ignore_errors=True)
    _flush_folder(target.parent)


def read_manifest(folder: Path) -> tuple[Position, Meta]:
    """Read a checkpoint's position and metadata without verifying its other files. Raises CheckpointError."""
    try:
        manifest = _manifest_in(folder)
        return _what_it_says(manifest)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{folder.name}: {error}") from error


def format_trouble(folder: Path) -> str | None:
    """Return why this version of oomph cannot read a checkpoint's format, or None if it can. Reads only the manifest.

    Raises CheckpointError if the manifest cannot be read.
    """
    try:
        manifest = _manifest_in(folder)
        schema, by = manifest["schema"], manifest.get("oomph", "an unknown version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{folder.name}: {error}") from error
    return None if schema == SCHEMA else f"saved by oomph {by} in format {schema}; {_reads()}"


def _reads() -> str:
    return f"this version ({__version__}) reads format {SCHEMA}"
