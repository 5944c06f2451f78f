"""Records how much memory real steps used on this user's GPUs, for later plans: one small JSON file per training run.

The folder is private to this user. Files that cannot be read or belong to someone else are skipped with a message.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from oomph.files.opening import FOLDER_MODE, open_own, replace_own
from oomph.planning.gpu_list import is_same
from oomph.planning.probe_record import ProbeRecord, as_document, record_of
from oomph.run.directory.trust import close_to_others, why_not_trusted

_MOST_FILES, _MOST_USED = 256, 32
_MOST_BYTES = 16 << 10
_ENDING = ".json"

Say = Callable[[str], None]


def folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for these records, `oomph/probes` in the user's cache directory."""
    named = environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".cache"
    return base / "oomph" / "probes"


def kept_for(gpu: str, environ: Mapping[str, str], say: Say) -> list[ProbeRecord]:
    """Return the records for this kind of GPU, newest first, or an empty list if the folder cannot be trusted."""
    where = folder(environ)
    try:
        if not where.is_dir():
            return []
        untrusted = why_not_trusted(where)
        if untrusted:
            say(f"{where} is ignored: {untrusted}")
            return []
        names = _newest(where)
    except OSError as error:
        say(f"{where} is ignored: {error.strerror}")
        return []
    found, damaged = [], []
    for name in names:
        try:
            found.append(_read(where, name))
        except (OSError, ValueError, RecursionError):
            damaged.append(name)
    if damaged:
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        say(f"{where / damaged[0]}{more} cannot be read and is ignored: delete it")
    return [record for record in found if is_same(record.gpu, gpu)][:_MOST_USED]


def keep(record: ProbeRecord, environ: Mapping[str, str], say: Say) -> None:
    """Save a record, replacing any older one for the same training run."""
    where = folder(environ)
    try:
        where.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        close_to_others(where)
        content = json.dumps(as_document(record)).encode()
        replace_own(where, _name(record), content)
        for name in _newest(where, after=_MOST_FILES):
            os.unlink(where / name)
    except OSError as error:
        say(f"the measurements cannot be kept for later plans: {error.strerror or error}: {where}")


def _name(record: ProbeRecord) -> str:
    """Return the name of the file with all measurements for a training run on one kind of GPU."""
    told = (record.gpu, record.tensorflow, record.engine, str(record.xla), record.training)
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:32] + _ENDING


def _newest(where: Path, after: int = 0) -> list[str]:
    """Return the file names, newest first: all past the first `after`, or, if `after` is 0, only those to be read."""
    with os.scandir(where) as entries:
        ours = [entry for entry in entries if entry.name.endswith(_ENDING)]
        dated = [(entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in ours]
    names = [name for _, name in sorted(dated, reverse=True)]
    return names[after:] if after else names[:_MOST_FILES]


def _read(where: Path, name: str) -> ProbeRecord:
    with os.fdopen(open_own(where, name, os.O_RDONLY), "rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("larger than any record")
    return record_of(json.loads(content))
