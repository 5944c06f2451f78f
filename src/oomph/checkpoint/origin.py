"""Distinguishes checkpoints that were written here from foreign ones, using a key stored next to the run directory.

Checksums reveal damage, but anyone can recompute them. Each checkpoint therefore also has a seal over its checksums,
made with a key that is never inside the run directory: someone who passes on, or plants, a run directory doesn't have
the key.

The code that restores a checkpoint's state decides what a checkpoint without the right seal is allowed to do
(`may_be_restored`, `admitted`). Standard library only.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from pathlib import Path

from oomph.files.oomph_folder import WORKERS
from oomph.files.opening import FILE_MODE, open_own

KEY = ".oomph-key"
"""The key's file name, to which the user ID is appended: folders such as /tmp may contain several users' runs."""
_KEY_BYTES = 32
_READ_TRIES, _READ_PAUSE_SECONDS = 3, 0.05


def key_name() -> str:
    """Return the file name of this user's key."""
    return f"{KEY}-{os.geteuid()}"


def key_of(run_dir: Path, entropy: str) -> bytes | None:
    """Return the key for this run's seals, which also differs from the keys of other runs in the same folder.

    Returns None if a key cannot be kept in the parent folder, in which case nobody else put the run directory there.

    Args:
        run_dir: the run directory; if there is no key next to it, one is created.
        entropy: the run's own entropy, which no other run shares.
    """
    key = _key_beside(run_dir)
    return None if key is None else hmac.digest(key, entropy.encode(), "sha256")


def _key_beside(run_dir: Path) -> bytes | None:
    """Return the key next to a run directory. A key that others may know is not used, and is replaced next time."""
    parent = Path(os.path.realpath(run_dir)).parent
    if parent.name == WORKERS:
        parent = parent.parent.parent  # that of a worker: what is inside a run directory may come with it
    try:
        with os.fdopen(open_own(parent, key_name(), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            key = secrets.token_bytes(_KEY_BYTES)
            file.write(key)
            return key if _is_for_us_alone(file.fileno()) else None  # a file system without modes can't protect a key
    except FileExistsError:
        return _read(parent)
    except OSError:
        return None


def _read(parent: Path) -> bytes | None:
    try:
        for _ in range(_READ_TRIES):
            with os.fdopen(open_own(parent, key_name(), os.O_RDONLY), "rb") as file:
                found, key = os.fstat(file.fileno()), file.read(_KEY_BYTES + 1)
                if found.st_uid != os.geteuid():
                    return secrets.token_bytes(_KEY_BYTES)
                if not _is_for_us_alone(file.fileno()):
                    os.fchmod(file.fileno(), FILE_MODE)
                    if not _is_for_us_alone(file.fileno()):
                        return None
                elif len(key) == _KEY_BYTES:
                    return key
                elif not key:  # another process has just created it
                    time.sleep(_READ_PAUSE_SECONDS)
                    continue
            break
        (parent / key_name()).unlink()
    except OSError:
        pass
    return secrets.token_bytes(_KEY_BYTES)


def _is_for_us_alone(fd: int) -> bool:
    return not stat.S_IMODE(os.fstat(fd).st_mode) & 0o077


def seal_of(sums: bytes, key: bytes) -> str:
    """Compute the seal of a checkpoint with these checksums, in hexadecimal."""
    return hmac.new(key, sums, hashlib.sha256).hexdigest()
