"""Copies a run directory to its store: the parts of files that are not there yet, then a manifest of all files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from oomph.checkpoint.store import state_of
from oomph.errors import StoreError
from oomph.files.opening import open_own
from oomph.run.directory.workers import folders_of
from oomph.run.store.claims import check_newest, newest_manifest
from oomph.run.store.layout import PART_BYTES, FilePart, Files, StoreManifest, WriteClaim, manifest_names, objects_of
from oomph.run.store.object_store import ObjectStore

RECORD = "run.json"
_CHECKPOINTS = "checkpoints"
_SUMS = "SHA256SUMS"
_SINGLE = (RECORD, "summary.json", "micro_batch.json", "progress", "training", "witness")
_FOLDERS = ("journal", "stderr", "output", "monitor")
_OF_ATTEMPTS = ("created-", "appended-")
_MOST_OF_RECORD, _MOST_OF_SUMS = 4 << 20, 4 << 20
_TRIES = 5


class SavedCheckpoint(NamedTuple):
    """A complete checkpoint of a run, by which a copy can see whether it has it."""

    path: str
    """The path of its folder below the run directory."""
    sums: bytes
    """Its checksums, which tell it from another checkpoint of the same name."""


class Copying:
    """Copies one run directory, as the owner of a claim.

    Args:
        objects: the store.
        run_dir: the run directory.
        claim: the claim of this process.
        go_on: called after each part; may raise, to stop.
    """

    def __init__(self, objects: ObjectStore, run_dir: Path, claim: WriteClaim, go_on: Callable[[], None]) -> None:
        self._objects, self._run_dir, self._claim, self._go_on = objects, run_dir, claim, go_on
        self._manifest: StoreManifest | None = None
        self._sequence = 0
        self._parts: dict[str, FilePart] = {}
        """The parts that are in the store, by digest, whether or not a manifest names them yet."""
        self._earliest: int | None = None
        """The first generation whose objects may still be there, or None until the store has been read."""
        self._sums: dict[str, bytes] = {}
        """Maps the path of each checkpoint in the manifest to its checksums."""

    def has_new_checkpoint(self) -> bool:
        """True if a checkpoint has been saved, or replaced, since the last round."""
        return any(self._sums.get(saved.path) != saved.sums for saved in checkpoints_of(self._run_dir))

    def missing(self) -> list[str]:
        """Return the paths of the checkpoints that are not in the store."""
        return [saved.path for saved in checkpoints_of(self._run_dir) if self._sums.get(saved.path) != saved.sums]

    def round(self) -> None:
        """Bring the store to the state of the run directory. Raises StoreError or OSError; SupersededError is for good.

        Until the new manifest is written, the old one stays valid with all its parts.
        """
        if self._earliest is None:
            self._earliest = self._begun()
        files, sums = self._copied()
        if self._sequence == 0 or self._manifest is None or files != self._manifest.files:
            self._publish(files)
        self._sums = sums

    def _begun(self) -> int:
        """Take over what is in the store, and return the generation that it comes from."""
        self._manifest = newest_manifest(self._objects, self._claim)
        if self._manifest is None:
            return 1
        self._parts = {part.digest: part for part in self._manifest.parts}
        return self._manifest.generation

    def _copied(self) -> tuple[Files, dict[str, bytes]]:
        """Copy what is not in the store yet. Raises OSError if a checkpoint cannot be read, StoreError otherwise."""
        files: dict[str, tuple[FilePart, ...]] = {}
        with ExitStack() as stack:
            opened = self._opened(stack)
            for saved, descriptors in opened.items():
                new = {path: self._parts_of(fd) for path, fd in descriptors.items()}
                files |= new or self._files_below(saved.path)
        for path in other_files(self._run_dir):  # after the checkpoints, of whose steps the journal must know
            parts = self._copied_file(path)
            if parts is not None:
                files[path] = parts
        return files, {saved.path: saved.sums for saved in opened}

    def _opened(self, stack: ExitStack) -> dict[SavedCheckpoint, dict[str, int]]:
        """Open the files of all checkpoints that are to be copied, of all workers, at one moment.

        They can then be read to the end, even if newer checkpoints take their place: those of all workers fit together.
        """
        for _ in range(_TRIES):
            try:
                with ExitStack() as tried:
                    saved = {each: self._descriptors(each, tried) for each in checkpoints_of(self._run_dir)}
                    stack.push(tried.pop_all())
                    return saved
            except FileNotFoundError:
                continue  # one has just been removed, after a newer one was saved
        raise StoreError(f"nothing is copied to {self._objects.shown}: checkpoints are replaced too fast")

    def _descriptors(self, saved: SavedCheckpoint, stack: ExitStack) -> dict[str, int]:
        """Open the files of a checkpoint, or none if it is in the manifest."""
        if self._sums.get(saved.path) == saved.sums:
            return {}
        opened = {}
        for name in sorted(os.listdir(self._run_dir / saved.path)):
            path = f"{saved.path}/{name}"
            opened[path] = open_own(self._run_dir, path, os.O_RDONLY)
            stack.callback(os.close, opened[path])
        return opened

    def _files_below(self, folder: str) -> Files:
        files = {} if self._manifest is None else self._manifest.files
        return {path: parts for path, parts in files.items() if path.startswith(f"{folder}/")}

    def _copied_file(self, path: str) -> tuple[FilePart, ...] | None:
        try:
            fd = open_own(self._run_dir, path, os.O_RDONLY)
        except OSError:
            return None
        try:
            return self._parts_of(fd)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _parts_of(self, fd: int) -> tuple[FilePart, ...]:
        return tuple(map(self._put, _pieces(fd)))

    def _put(self, piece: bytes) -> FilePart:
        """Return a part in the store with these bytes, after writing it if there is none."""
        digest = hashlib.sha256(piece).hexdigest()
        if digest not in self._parts:
            part = FilePart(self._claim.generation, digest, len(piece))
            self._objects.write(part.name, piece)
            self._parts[digest] = part
        self._go_on()
        return self._parts[digest]

    def _publish(self, files: Files) -> None:
        """Write the manifest, then remove what only older ones name.

        The claim is read before and after. If a newer one is made after the second reading, its owner starts from this
        manifest, and misses nothing of what is removed.
        """
        check_newest(self._objects, self._claim)
        self._sequence += 1
        record = open_own(self._run_dir, RECORD, os.O_RDONLY)
        with os.fdopen(record, "rb") as file:
            text = file.read(_MOST_OF_RECORD).decode(errors="replace")
        manifest = StoreManifest(self._claim.generation, self._sequence, self._run_dir.name, text, files)
        self._objects.write(manifest.slot, manifest.to_json())
        is_first, self._manifest = self._sequence == 1, manifest
        check_newest(self._objects, self._claim)
        obsolete = set(self._parts.values()) - manifest.parts
        self._objects.remove(part.name for part in obsolete)
        self._parts = {part.digest: part for part in manifest.parts}
        if is_first:
            self._clear_earlier(manifest)

    def _clear_earlier(self, manifest: StoreManifest) -> None:
        """Remove what earlier generations have left: their manifests, and parts that no manifest came to name."""
        named = {part.name for part in manifest.parts}
        for generation in range(self._earliest or 1, self._claim.generation):
            self._objects.remove(manifest_names(generation))
            self._objects.remove(set(self._objects.listed(objects_of(generation))) - named)


def checkpoints_of(run_dir: Path) -> list[SavedCheckpoint]:
    """Return the complete checkpoints of a run, of all its workers."""
    found = []
    for place in folders_of(run_dir):
        for name in _names(place / _CHECKPOINTS):
            path = f"{_below(run_dir, place)}{_CHECKPOINTS}/{name}"
            sums = None if state_of(name) is None else _read(run_dir, f"{path}/{_SUMS}")
            if sums is not None:
                found.append(SavedCheckpoint(path, sums))
    return found


def other_files(run_dir: Path) -> list[str]:
    """Return the paths of the run's files that are not checkpoints, of all its workers."""
    found = []
    for place in folders_of(run_dir):
        below = _below(run_dir, place)
        found += [f"{below}{name}" for name in _names(place) if name in _SINGLE or name.startswith(_OF_ATTEMPTS)]
        for folder in _FOLDERS:
            found += [f"{below}{folder}/{name}" for name in _names(place / folder) if not name.endswith(".partial")]
    return found


def _below(run_dir: Path, place: Path) -> str:
    return "" if place == run_dir else f"{place.relative_to(run_dir)}/"


def _names(folder: Path) -> list[str]:
    """Return what is in a folder, or nothing if there is none. Raises OSError if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read(run_dir: Path, path: str) -> bytes | None:
    try:
        with os.fdopen(open_own(run_dir, path, os.O_RDONLY), "rb") as file:
            return file.read(_MOST_OF_SUMS)
    except FileNotFoundError:
        return None


def _pieces(fd: int) -> Iterator[bytes]:
    """Yield the content of a file, in pieces of the size of a part."""
    offset = 0
    while piece := os.pread(fd, PART_BYTES, offset):
        offset += len(piece)
        yield piece
