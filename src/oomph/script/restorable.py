"""Decides which files oomph may restore: contents that run nothing when read, at paths that nothing runs or hides.

`numpy.load`, `joblib.load`, `torch.load` and `pandas.read_pickle` find a pickle by its content, not by the name. So
only known forms pass, each checked completely: text, NumPy numbers, Keras models and weights, safetensors, and these
within an archive or a compressed file. Nothing is loaded.

A run directory may come from anybody. The script opens what it names itself; oomph restores the content of such a file,
and must not plant a program, a setting or a pickle there. Standard library only.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import re
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oomph.script.harmless_formats import (
    HDF5,
    calls_something,
    follows_arrays,
    is_plain_document,
    is_plain_hdf5,
    may_be_pickled,
)

_MOST = 64 << 20
"""The maximum number of bytes to unpack from a single value."""
_MOST_IN_ALL = 4 * _MOST
"""The maximum number of bytes to unpack for all values of a checkpoint: many small ones could take hours."""
_MOST_OF_DEFLATE = 1032
"""The highest compression ratio of gzip and zlib."""
_DEEPEST = 3
_MOST_MEMBERS, _MOST_VALUES = 10_000, 1 << 21
_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text contains; a terminal log may contain bell, backspace and escape."""
_ACTIVE_TEXT = re.compile(
    rb'\A\s*#!|!!python|yaml\.org,2002:py|^%TAG|![^\s!%]*%[0-9a-f]{2}|"(?:p|\\u0070)(?:y|\\u0079)(?:/|\\/|\\u002f)',
    re.M | re.I,
)
"""Shell scripts, and calls in YAML and in jsonpickle's JSON."""
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
_ZIP, _ZIP_WITHIN = b"PK\x03\x04", b"PK\x05\x06"
_PROGRAM_NAME = re.compile(r"\.(?:py\w?|pth|pkl|pickle|so|sh)\Z|(?:\A|/)\.\.?(?:/|\Z)|\A/", re.I)
_COMPRESSED: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x5d\x00\x00", lzma.LZMAFile),
)


_NOT_DEFLATED = tuple(mark for mark, _ in _COMPRESSED[1:])


_is_from_elsewhere = False


def take_from_elsewhere() -> None:
    """From now on, restore no text and no file in this process: the run directory may come from anybody."""
    global _is_from_elsewhere
    _is_from_elsewhere = True


def is_from_elsewhere() -> bool:
    """True if this process has used a checkpoint that was not written beside the key of this run."""
    return _is_from_elsewhere


def is_run_when_read(content: bytes) -> bool:
    """True unless the content is known to run nothing when it is read."""
    return not _is_harmless(content, _DEEPEST)


class Unpacking:
    """The number of bytes that may still be unpacked for the values of one checkpoint."""

    def __init__(self) -> None:
        self._left = _MOST_IN_ALL

    def unpacked(self, content: bytes) -> bytes | None:
        """Unpack the content; None if nothing was compressed. Raises OverflowError if it is too long."""
        most = min(_MOST, self._left)
        try:
            found = _decompressed(content, most)
        except _NOT_COMPRESSED:  # perhaps only at its end
            is_deflated = not content.startswith(_NOT_DEFLATED)
            self._left -= min(most, len(content) * _MOST_OF_DEFLATE) if is_deflated else most
            return None
        if found is not None and len(found) > most:
            raise OverflowError
        self._left -= len(found or b"")
        return found


def holds_pickled_objects(content: bytes, unpacking: Unpacking) -> bool:
    """True for a pickle, compressed or not, that may import or call something: more than containers.

    Also true for content too long to check.
    """
    try:
        for _ in range(_DEEPEST):
            inner = unpacking.unpacked(content)
            if inner is None:
                return calls_something(content)
            content = inner
    except OverflowError:
        pass
    return True


def _is_harmless(content: bytes, deep: int) -> bool:
    if deep < 0 or may_be_pickled(content) or _is_of_several_forms(content):
        return False
    inner = _unpacked(content)
    if inner is not None:
        return _is_harmless(inner, deep - 1)
    if content.startswith(_ZIP):
        return _is_harmless_archive(content, deep - 1)
    if content.startswith(HDF5):
        return is_plain_hdf5(content)
    if follows_arrays(content) or _is_safetensors(content):
        return True
    return content.startswith(_PICTURES) or _is_harmless_text(content)


def _is_of_several_forms(content: bytes) -> bool:
    """True if readers may mistake a content for a form other than its first bytes show, such as a trailing archive."""
    if content.startswith(HDF5):
        return zipfile.is_zipfile(io.BytesIO(content))  # it may hold what was in the memory before, in its gaps
    if _begins_as_tar(content) or (_ZIP_WITHIN in content and not content.startswith(_ZIP)):
        return True
    at = 512
    while at < len(content):
        if content.startswith(HDF5, at):
            return True
        at *= 2
    return False


def _begins_as_tar(content: bytes) -> bool:
    if len(content) < tarfile.BLOCKSIZE:
        return False
    try:
        tarfile.TarInfo.frombuf(content[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _unpacked(content: bytes) -> bytes | None:
    """Unpack the content; None if it is not compressed, `_UNKNOWN` if it cannot be unpacked."""
    try:
        found = _decompressed(content, _MOST)
    except _NOT_COMPRESSED:
        return _UNKNOWN
    return found if found is None or len(found) <= _MOST else _UNKNOWN


_UNKNOWN = b"\x80\x02"
_NOT_COMPRESSED = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)


def _decompressed(content: bytes, most: int) -> bytes | None:
    """Decompress up to `most` + 1 bytes of the content; None if not compressed. Raises one of `_NOT_COMPRESSED`."""
    for mark, opened in _COMPRESSED:
        if content.startswith(mark):
            return bytes(opened(io.BytesIO(content)).read(most + 1))
    if len(content) > 1 and content[0] & 15 == 8 and int.from_bytes(content[:2], "big") % 31 == 0:
        return _inflated(content, most)
    return None


def _inflated(content: bytes, most: int) -> bytes:
    reader = zlib.decompressobj()
    found = reader.decompress(content, most + 1)
    if len(found) <= most and not reader.eof:
        raise EOFError
    return _UNKNOWN + found if reader.unused_data else found  # a reader may go on with what follows


def _is_harmless_archive(content: bytes, deep: int) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            names = {member.filename for member in members}
            if len(names) < len(members) or len(members) > _MOST_MEMBERS:
                return False
            if sum(member.file_size for member in members) > _MOST or any(map(_PROGRAM_NAME.search, names)):
                return False
            return all(_is_harmless_member(archive, member, deep) for member in members)
    except Exception:
        return False  # nobody can tell what else would find in it


def _is_harmless_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, deep: int) -> bool:
    """True if an archive's member is harmless and as long as stated.

    Reading further, or reading bz2, would unpack everything.
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return False
    with archive.open(member) as file:
        content = file.read(member.file_size + 1)
    return len(content) == member.file_size and _is_harmless(content, deep)


def _is_safetensors(content: bytes) -> bool:
    length = int.from_bytes(content[:8], "little")
    if not (2 <= length <= len(content) - 8 and content[8:9] == b"{"):
        return False
    header = content[8 : 8 + length]
    if _has_many_values(header):
        return False
    try:
        return isinstance(json.loads(header), dict)
    except (ValueError, RecursionError):
        return False


def _has_many_values(document: bytes) -> bool:
    """True for JSON that would take much memory: parsed, an empty list takes thirty times its text."""
    return sum(map(document.count, (b",", b"[", b"{"))) > _MOST_VALUES


def _is_harmless_text(content: bytes) -> bool:
    content = content.removeprefix(codecs.BOM_UTF8)
    if _CONTROLS.search(content) or _ACTIVE_TEXT.search(content):
        return False
    if not content.lstrip().startswith((b"{", b"[", b'"')):
        return True
    if _has_many_values(content):
        return False
    try:
        return is_plain_document(json.loads(content))
    except ValueError:
        return True  # several lines of JSON, or none at all: no model is read from it
    except RecursionError:
        return False


_PROGRAMS = (
    *(".py", ".pyw", ".pyc", ".pyi", ".pyz", ".pth", ".so", ".sh", ".bash", ".zsh", ".fish", ".ipynb", ".ipy"),
    *(".desktop", ".service", ".csh", ".ksh", ".pl", ".rb", ".R", ".js", ".ps1", ".bat", ".cmd", ".mk", ".cmake"),
)
_SETTINGS = frozenset(
    (
        *("Makefile", "makefile", "GNUmakefile", "Dockerfile", "Jenkinsfile", "CMakeLists.txt", "requirements.txt"),
        *("setup.cfg", "pyproject.toml", "tox.ini", "pytest.ini", "Pipfile", "environment.yml"),
    )
)
"""Files whose content says what a tool runs or installs."""
_PICKLED = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth", ".dir")
"""Endings of files that hold pickles, and of the index of a shelf, which says where its pickles begin."""


def is_of_a_program(path: str) -> bool:
    """True if the path names a file that Python, a shell or a tool runs."""
    return path.endswith(_PROGRAMS) or os.path.basename(path) in _SETTINGS


def is_hidden(path: str) -> bool:
    """True for a path with a part that begins with a dot, which is where programs keep their settings."""
    return any(part.startswith(".") and part not in (".", "..") for part in path.split(os.sep))


def may_be_restored(path: str, content: bytes) -> bool:
    """True if oomph may give this content to a file that the script opens.

    Args:
        path: the absolute path.
    """
    below = os.path.relpath(path) if _is_below(path, os.getcwd()) else path
    is_ours = any(_is_below(path, prefix) for prefix in {sys.prefix, sys.base_prefix} if prefix not in ("/", "/usr"))
    return not (
        _is_from_elsewhere
        or is_of_a_program(path)
        or is_hidden(below)
        or path.endswith(_PICKLED)
        or Path(path).with_suffix(".dir").exists()
        or is_run_when_read(content)
        or is_ours
        or Path(path).is_symlink()
    )


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
