"""Reads and writes the objects of a store through fsspec, and says in a few words why that fails.

A URL may also be that of Ray's `storage_path`. Ray reaches it through pyarrow, whose options stand in the query. So
does oomph if there are any, or if fsspec has no package for the protocol. fsspec rather than `tf.io.gfile`, because the
processes of `oomph run` never import TensorFlow.
"""

from __future__ import annotations

import importlib.util
import os
import posixpath
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from oomph.errors import StoreError
from oomph.redaction.redaction import redacted
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import shortened

_MOST_OF_REASON = 200
_LOCAL = ("file", "local")
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_ARROW, _OF_ARROW = "pyarrow", ("s3", "gs", "gcs", "abfs")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def shown_url(url: str) -> str:
    """Return a URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return shown_line(redacted(f"{parts.scheme}://{host}{parts.path}"))


class ObjectStore:
    """The objects below one URL, by name. All methods raise StoreError, which says in one sentence what is wrong."""

    def __init__(self, url: str) -> None:
        self.shown = shown_url(url)
        if not _URL.match(url):
            raise StoreError(
                "--store needs a URL such as s3://bucket/prefix; a folder that machines share is for --runs-dir"
            )
        try:
            self._files, root = _file_system(url)
        except ImportError as error:
            raise StoreError(f"--store: {self.shown} needs a package that is missing: {_to_install(url)}") from error
        except Exception as error:
            raise StoreError(f"--store: {self.shown} cannot be used: {reason_of(error)}") from error
        self._root, self._is_local = root.rstrip("/"), urlsplit(url).scheme in _LOCAL
        # Otherwise, pyarrow could not read a part of an object.
        self._reading = {"seekable": True} if _is_for_arrow(url) else {}
        if not self._root:
            raise StoreError(f"--store: {self.shown} names no place in the store, such as a bucket and a prefix")

    def read(self, name: str, most: int) -> bytes | None:
        """Return the content of an object, at most so many bytes of it, or None if there is no such object."""
        try:
            found: bytes = self._files.cat_file(self._at(name), start=0, end=most, **self._reading)
            return found
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("read", error) from error

    def write(self, name: str, data: bytes) -> None:
        """Write an object, in place of an older one."""
        try:
            self._files.pipe_file(self._at(name), data)
        except Exception as error:
            raise self._failed("written to", error) from error

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that did not exist. Return False if it does; not every store can tell for sure."""
        try:
            self._create(self._at(name), data)
        except FileExistsError:
            return False
        except Exception as error:
            raise self._failed("written to", error) from error
        return True

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, of which some may be gone already."""
        for name in names:
            try:
                self._files.rm_file(self._at(name))
            except FileNotFoundError:
                pass
            except Exception as error:
                raise self._failed("written to", error) from error

    def listed(self, folder: str) -> list[str]:
        """Return the names of the objects that a store lists below a folder. It may not know the newest."""
        try:
            found = self._files.find(self._at(folder))
        except Exception as error:
            raise self._failed("read", error) from error
        return [path[path.rindex(f"/{folder}/") + 1 :] for path in found if f"/{folder}/" in path]

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _create(self, path: str, data: bytes) -> None:
        if self._is_local:
            os.makedirs(posixpath.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(data)
            return
        try:
            self._files.pipe_file(path, data, mode="create")
        except (TypeError, NotImplementedError):  # a file system that only overwrites
            if self._files.exists(path):
                raise FileExistsError(path) from None
            self._files.pipe_file(path, data)

    def _failed(self, what: str, error: Exception) -> StoreError:
        return StoreError(f"{self.shown} cannot be {what}: {reason_of(error)}")


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec  # late: an optional package

    protocol = urlsplit(url).scheme
    if _is_for_arrow(url):
        return _arrow_file_system(url)
    options = {"auto_mkdir": True} if protocol in _LOCAL else {"use_listings_cache": False}
    found: tuple[Any, str] = fsspec.core.url_to_fs(url, skip_instance_cache=protocol != "memory", **options)
    return found


def _is_for_arrow(url: str) -> bool:
    """True if pyarrow is to serve a URL, because of the options in its query, or as nothing else does."""
    parts = urlsplit(url)
    package = _PACKAGES.get(parts.scheme)
    if package is None or parts.scheme not in _OF_ARROW:
        return False
    return bool(parts.query) or (not _is_installed(package) and _is_installed(_ARROW))


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _arrow_file_system(url: str) -> tuple[Any, str]:
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow.fs import FileSystem

    files, root = FileSystem.from_uri(url)
    return ArrowFSWrapper(files), root


def _to_install(url: str) -> str:
    package = _ARROW if _is_for_arrow(url) else _PACKAGES.get(urlsplit(url).scheme)
    return f"pip install 'oomph[store]'{f' {package}' if package else ', and the package of this protocol'}"


def reason_of(error: BaseException) -> str:
    """Return why a store refused, in a few words."""
    match error:
        case PermissionError():
            return "permission denied"
        case FileNotFoundError():
            return "the bucket or folder does not exist"
        case TimeoutError():
            return "no answer in time"
        case OSError() if "AWS Error ACCESS_DENIED" in str(error):  # pyarrow's words
            return "permission denied"
        case OSError() if "AWS Error NO_SUCH_BUCKET" in str(error):
            return "the bucket or folder does not exist"
    said = shown_line(redacted(" ".join((getattr(error, "strerror", None) or str(error)).split())))
    return shortened(said, _MOST_OF_REASON) or type(error).__name__
