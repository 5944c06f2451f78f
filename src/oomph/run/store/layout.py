"""The objects of a store, as values: who writes which generation, and which files a run directory has.

```text
claims/<generation>.json         who writes this generation; created once, never changed, never removed
manifests/<generation>-<0|1>.json   the files of the run; the two are written in turn, so that one is always whole
objects/<generation>/<digest>    a part of a file
```

A generation is one `oomph run`. Each object has one writer, the process that made the claim. Nothing is renamed,
appended to, or found by listing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from oomph import __version__
from oomph.errors import StoreError
from oomph.process.process_identity import ProcessIdentity

SCHEMA = 1
PART_BYTES = 32 << 20
"""The size of the parts that files are cut into, and the most memory that copying takes."""
_MOST_FILES, _MOST_PARTS = 10**6, 10**7
_DIGEST_LETTERS = 64


class FilePart(NamedTuple):
    """A piece of a file, as one object."""

    generation: int
    digest: str
    """The SHA-256 digest of its bytes, in hexadecimal."""
    nbytes: int

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{objects_of(self.generation)}/{self.digest}"


Files = Mapping[str, tuple[FilePart, ...]]
"""Maps the path of each file below the run directory to its parts, in order."""


class WriteClaim(NamedTuple):
    """The right to write one generation."""

    generation: int
    owner: ProcessIdentity
    nonce: str
    """Random, since two processes may claim a generation at once in a store that cannot refuse the second."""

    @property
    def name(self) -> str:
        """The name of its object."""
        return claim_name(self.generation)

    def to_json(self) -> bytes:
        """Return the claim as JSON."""
        return _as_json({"owner": list(self.owner), "nonce": self.nonce})

    @classmethod
    def from_json(cls, generation: int, data: bytes) -> WriteClaim:
        """Parse a claim. Raises ValueError if it is damaged, or StoreError if it has another format."""
        document = _document(data)
        owner, nonce = document.get("owner"), document.get("nonce")
        if not isinstance(owner, list) or not isinstance(nonce, str):
            raise ValueError("not a claim")
        identity = ProcessIdentity.from_text(" ".join(map(str, owner)))
        if identity is None:
            raise ValueError("not a claim")
        return cls(generation, identity, nonce)


class StoreManifest(NamedTuple):
    """The files of a run directory at one moment, all of whose parts are in the store."""

    generation: int
    sequence: int
    """Grows with each manifest of a generation."""
    name: str
    """The name of the run directory."""
    record: str
    """The text of run.json."""
    files: Files

    @property
    def slot(self) -> str:
        """The name of its object."""
        return manifest_names(self.generation)[self.sequence % 2]

    @property
    def parts(self) -> set[FilePart]:
        """All parts of all files."""
        return {part for parts in self.files.values() for part in parts}

    def to_json(self) -> bytes:
        """Return the manifest as JSON."""
        files = {path: [list(part) for part in parts] for path, parts in self.files.items()}
        return _as_json({"sequence": self.sequence, "name": self.name, "run": self.record, "files": files})

    @classmethod
    def from_json(cls, generation: int, data: bytes) -> StoreManifest:
        """Parse a manifest, which may be planted. Raises ValueError if it is damaged, StoreError for another format."""
        document = _document(data)
        sequence, name, record, files = (document.get(key) for key in ("sequence", "name", "run", "files"))
        if not isinstance(sequence, int) or not isinstance(record, str) or not isinstance(name, str):
            raise ValueError("not a manifest")
        if not _is_plain(name) or not isinstance(files, dict) or len(files) > _MOST_FILES:
            raise ValueError("not a manifest")
        return cls(generation, sequence, name, record, {_path(path): _parts(parts) for path, parts in files.items()})


def claim_name(generation: int) -> str:
    """Return the name of the claim on a generation."""
    return f"claims/{generation}.json"


def manifest_names(generation: int) -> tuple[str, str]:
    """Return the names of the two manifests of a generation, the newer of which counts."""
    return f"manifests/{generation}-0.json", f"manifests/{generation}-1.json"


def objects_of(generation: int) -> str:
    """Return the folder of the parts that were written in a generation."""
    return f"objects/{generation}"


def _as_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps({"schema": SCHEMA, "oomph": __version__, **document}, separators=(",", ":")).encode()


def _document(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("not an object")
    schema, by = document.get("schema"), document.get("oomph", "an unknown version")
    if isinstance(schema, int) and schema != SCHEMA:
        reads = f"this version, {__version__}, reads format {SCHEMA}"
        raise StoreError(f"the store was written by oomph {by} in format {schema}; {reads}")
    return document


def _path(path: object) -> str:
    """Return a path below a run directory. Raises ValueError for any other."""
    if not isinstance(path, str) or not all(map(_is_plain, path.split("/"))):
        raise ValueError("a path leads out of the run directory")
    return path


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "\0" not in name and "/" not in name


def _parts(parts: object) -> tuple[FilePart, ...]:
    if not isinstance(parts, list) or len(parts) > _MOST_PARTS:
        raise ValueError("not the parts of a file")
    return tuple(_part(part) for part in parts)


def _part(values: object) -> FilePart:
    match values:
        case [int(generation), str(digest), int(nbytes)] if _is_digest(digest) and 0 < nbytes <= PART_BYTES:
            return FilePart(generation, digest, nbytes)
    raise ValueError("not a part of a file")


def _is_digest(text: str) -> bool:
    return len(text) == _DIGEST_LETTERS and set(text) <= set("0123456789abcdef")
