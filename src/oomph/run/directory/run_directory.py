"""The folder where a run keeps its state, the lock that keeps a second oomph out, and working folders."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from oomph import __version__
from oomph.errors import RunDirectoryError, UsageError
from oomph.files.oomph_folder import MOST_WORKERS, NOTEBOOKS, OOMPH, RUNS, make_own_parents
from oomph.files.opening import open_own, pin, read_own, replace_own, unpin
from oomph.redaction.redaction import redacted_data
from oomph.run.directory.lease import LOCK, Lease, LockHolder, holder_in, is_held, lives_elsewhere, newest_holder
from oomph.run.directory.search import is_own_place
from oomph.run.directory.trust import close_to_others, why_not_trusted
from oomph.terminal.console import say

SCHEMA = 1
DEFAULT_PARENT = Path(OOMPH) / RUNS
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
PREEMPTED = "preempted"
GAVE_UP = "gave-up"
KEPT = "kept"
STATUSES = (RUNNING, FINISHED, FAILED, GAVE_UP, PREEMPTED, KEPT)
_LONGEST_NAME, _LONGEST_NAME_BYTES = 60, 120
"""The most characters and bytes of the script's name in the name of a run. Many file systems allow 255 bytes."""
_MOST_OF_RECORD = 4 << 20
"""The most bytes to read from a run.json: more than the longest command line. Parsing may need thirty times as much."""
_MOST_ATTEMPTS = 10**6
"""The highest plausible attempt number, far above the number of attempts that a run may start."""


class RunRecord(NamedTuple):
    """The contents of run.json, which are enough to find the run and start it again."""

    command: tuple[str, ...]
    python: str
    """The Python that runs the script, or an empty string if the command itself chooses one."""
    cwd: str
    created: str
    status: str = RUNNING
    """"running", "finished", "failed", "gave-up", "preempted" or "kept".

    "finished" means that the script exited with code 0, "failed" that the script itself failed, "gave-up" that oomph
    gave up, "preempted" that the run should be restarted elsewhere or later, and "kept" that the script exited with
    code 0 but its checkpoints may still be needed.
    """
    attempts: int = 0
    host: str = ""
    """The name of the machine that is running the script, or that ran it last."""
    options: tuple[str, ...] = ()
    """The `oomph run` options, as the user last typed them."""
    entropy: str = ""
    """The seed that replaces the system's entropy in every attempt, or an empty string for none."""
    digest: str = ""
    """A digest of the command if it contains a secret, which is not stored; an empty string otherwise."""
    workers: int = 1
    """The number of processes that run the script at the same time (`--workers`)."""

    def to_json(self) -> str:
        """Return the record as the text of run.json."""
        return json.dumps(redacted_data({"schema": SCHEMA, "oomph": __version__, **self._asdict()}), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> RunRecord:
        """Parse a run.json. Raises ValueError if it is not valid."""
        document = _document(text)
        if document.get("schema") != SCHEMA:
            raise ValueError("not a run.json that this version can read")
        try:
            return cls(
                command=_command(document["command"]),
                python=str(document["python"]),
                cwd=str(document["cwd"]),
                created=str(document["created"]),
                status=str(document["status"]),
                attempts=_number("attempts", document["attempts"], 0, _MOST_ATTEMPTS),
                host=str(document["host"]),
                options=_words(document["options"], "options"),
                entropy=_hexadecimal(document["entropy"]),
                digest=str(document["digest"]),
                workers=_number("workers", document["workers"], 1, MOST_WORKERS),
            )
        except KeyError as error:
            raise ValueError(f"run.json is incomplete: {error}") from error


def _document(text: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except RecursionError as error:
        raise ValueError("run.json is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("run.json is not an object")
    return document


def _command(value: object) -> tuple[str, ...]:
    words = _words(value, "command")
    if not words:
        raise ValueError("the command in run.json is empty")
    return words


def _words(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"the {what} in run.json is not a list of words")
    return tuple(map(str, value))


def _hexadecimal(value: object) -> str:
    if not isinstance(value, str) or (value and not re.fullmatch("[0-9a-f]{32}", value)):
        raise ValueError("the entropy in run.json is not a number")
    return value


def _number(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"the {name} in run.json are not a number from {least} to {most}")
    return value


class RunDirectory:
    """A run directory whose lock this process holds."""

    def __init__(
        self,
        path: Path,
        record: RunRecord,
        lock_fd: int,
        identity: tuple[int, int] | None = None,
        lease: Lease | None = None,
    ) -> None:
        self.path, self.record, self.lock_fd, self._lease = path, record, lock_fd, lease
        self.identity = identity
        """The device and inode of the folder at `path`."""

    @classmethod
    def create(cls, path: Path, record: RunRecord) -> RunDirectory:
        """Create a new run in `path`. Raises RunDirectoryError if it cannot be written or already contains a run."""
        try:
            _make_folder(path)
            path = path.resolve()
            _check_not_foreign(path)
            close_to_others(path)
            identity = pin(path)
            lease = lock_run(path)
        except FileExistsError as error:
            what = "a link to a folder that does not exist" if path.is_symlink() else "a file, not a folder"
            raise RunDirectoryError(f"the run directory {path} cannot be written: it is {what}") from error
        except OSError as error:
            unpin(path)
            raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
        try:
            _check_no_run(path)
            run = cls(path, record, lease.fd, identity, lease)
            run.update()
        except OSError as error:
            os.close(lease.fd)
            unpin(path)
            raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
        except RunDirectoryError:
            os.close(lease.fd)
            unpin(path)
            raise
        return run

    @classmethod
    def create_default(cls, name: str, record: RunRecord, within: Path | None = None) -> RunDirectory:
        """Create a new run in its own folder in `.oomph/runs`, named after the time and the script.

        Args:
            within: the folder of `.oomph`, which may be missing; defaults to the working directory.
        """
        try:
            if within is not None and not os.path.lexists(within):
                within.mkdir(parents=True, exist_ok=True)
            parent = make_own_parents(within=within)
        except OSError as error:
            place = (within or Path()) / DEFAULT_PARENT
            raise RunDirectoryError(f"the run directory {place} cannot be written: {error.strerror}") from error
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{file_name(name)}"
        for number in range(1, 1000):
            path = parent / (stem if number == 1 else f"{stem}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                if path.is_dir():
                    continue  # another run started in the same second
                raise RunDirectoryError(f"the run directory {path} cannot be written") from None
            except OSError as error:
                raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
            return cls.create(path, record)
        raise RunDirectoryError(f"no free run directory name like {stem}")

    @classmethod
    def reopen(cls, path: Path) -> RunDirectory:
        """Open an existing run. Raises RunDirectoryError if there is none, or if another oomph is using it."""
        record = read_record(path)
        if record is None:
            raise RunDirectoryError(_why_not_a_run(path))
        path = path.resolve()
        try:
            identity = pin(path)  # first, so that the folder that is checked is the folder that is used
            stranger = why_not_trusted(path)
            if stranger is not None:
                raise RunDirectoryError(f"{path} cannot be resumed: {stranger}")
            lease = lock_run(path)
            return cls(path, read_record(path) or record, lease.fd, identity, lease)
        except OSError as error:
            unpin(path)
            raise RunDirectoryError(f"the run directory {path} cannot be written: {error.strerror}") from error
        except RunDirectoryError:
            unpin(path)
            raise

    def update(self, **changes: Any) -> None:
        """Change the record and write it atomically."""
        self.record = self.record._replace(**changes)
        replace_own(self.path, "run.json", self.record.to_json().encode())

    def hold(self, lease: Lease) -> None:
        """Hold the directory by this lease, until it is closed."""
        self.lock_fd, self._lease = lease.fd, lease

    def is_kept(self) -> bool:
        """Return False if an oomph on another host has taken the directory. To be called every few seconds."""
        return self._lease is None or self._lease.is_kept()

    def set_aside(self) -> Path:
        """Rename the folder, so that a new run can use its path; return the new path. Raises OSError on failure.

        This requires the lock, which the run has. Otherwise, if two runs started together, the second would move the
        first's new run.
        """
        numbered = (self.path.with_name(f"{self.path.name}.{number}") for number in itertools.count(1))
        aside = next(path for path in numbered if not path.exists())
        self.path.rename(aside)
        return aside

    def close(self) -> None:
        """Release the lock. A script that is still alive continues to hold it."""
        if self._lease is not None:
            self._lease.release()
        unpin(self.path)
        os.close(self.lock_fd)


def _make_folder(path: Path) -> None:
    """Create the folder of a run, and a missing `.oomph` above it as `create_default` does."""
    oomph_folder = path.absolute().parent.parent
    if is_own_place(path) and not os.path.lexists(oomph_folder):
        oomph_folder.parent.mkdir(parents=True, exist_ok=True)
        make_own_parents(path.parent.name, oomph_folder.parent)
    path.mkdir(parents=True, exist_ok=True)


def file_name(name: str) -> str:
    """Return a short name that is valid for any folder, made of letters and digits from any alphabet."""
    letters = "".join(letter if _is_plain(letter) else " " for letter in unicodedata.normalize("NFC", name))
    short = "-".join(letters.split())[:_LONGEST_NAME].encode(errors="replace")[:_LONGEST_NAME_BYTES]
    return short.decode(errors="ignore").strip("-") or "run"


def _is_plain(letter: str) -> bool:
    """True for a letter, a digit or a combining mark, provided that the file system's encoding can represent it."""
    if letter.isascii():
        return letter.isalnum() or letter in "._-"
    try:
        os.fsencode(letter)
    except UnicodeEncodeError:
        return False
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def read_record(path: Path) -> RunRecord | None:
    """Return the record of the run in `path`, or None if there is no valid one."""
    try:
        return RunRecord.from_json(_text(path))
    except (OSError, ValueError):
        return None


def why_no_record(path: Path) -> str:
    """Say why there is no valid run.json in `path`, for a sentence about it."""
    try:
        _text(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ValueError:
        pass
    return "is damaged"


def _text(path: Path) -> str:
    return read_own(path, "run.json", _MOST_OF_RECORD).decode()


def written_by_another(path: Path) -> str:
    """Return a sentence saying that another oomph wrote run.json in a different format, or an empty string if not."""
    try:
        schema = _document(_text(path)).get("schema")
    except (OSError, ValueError):
        return ""
    if not isinstance(schema, int) or isinstance(schema, bool) or schema == SCHEMA:
        return ""
    return (
        f"{path} was written by another version of oomph, in format {schema}; this one, {__version__}, reads format"
        f" {SCHEMA}"
    )


def _why_not_a_run(path: Path) -> str:
    try:
        is_complete = "schema" in _document(_text(path))
    except (OSError, ValueError):
        is_complete = False
    if not is_complete:
        return f"{path} is not an oomph run: it has no readable run.json"
    return written_by_another(path) or f"{path} cannot be resumed: its run.json is incomplete or damaged"


def _check_not_foreign(path: Path) -> None:
    """Reject a folder that contains anything else, because a new run starts in an empty folder."""
    names = {entry.name for entry in path.iterdir()}
    if read_record(path) is None and names - {LOCK}:
        if LOCK in names and is_held(path):  # another oomph is just beginning its run here
            raise RunDirectoryError(_in_use(path, newest_holder(path)))
        raise RunDirectoryError(f"{path} is not empty and is not an oomph run: choose another directory")


def _check_no_run(path: Path) -> None:
    record = read_record(path)
    if record is not None:
        what = "finished run" if record.status == FINISHED else "run"
        raise RunDirectoryError(
            f"{path} already contains a {what}: choose another directory"
            + ("" if record.status == FINISHED else f", or continue it with --resume={path}")
        )


def lock_run(path: Path) -> Lease:
    """Lock the directory for this process and every process that inherits the lock's descriptor.

    Raises RunDirectoryError if another process holds the lock, or OSError if the lock cannot be opened.
    """
    fd = open_own(path, LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = holder_in(fd)
        os.close(fd)
        raise RunDirectoryError(_in_use(path, holder)) from None
    except OSError:
        _look_without_lock(fd, path)
    holder = holder_in(fd)
    if lives_elsewhere(path, holder):
        os.close(fd)
        raise RunDirectoryError(_in_use(path, holder))
    if not _is_at(path / "lock", fd):  # this was a finished run, and another oomph has just renamed it
        os.close(fd)
        raise RunDirectoryError(f"{path} has just been taken by another oomph run")
    return Lease(path, fd)


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except OSError:
        return False


def _look_without_lock(fd: int, path: Path) -> None:
    """Continue without a lock on a file system that doesn't support locks, unless the recorded holder is alive."""
    holder = holder_in(fd)
    if holder is not None and holder.process.lives and holder.process.pid != os.getpid():
        os.close(fd)
        raise RunDirectoryError(_in_use(path, holder))
    say(f"the file system of {path} has no locks: make sure no other machine uses this run directory at the same time")


def _in_use(path: Path, found: LockHolder | None) -> str:
    holder = None if found is None else found.process
    gone = holder is not None and not holder.elsewhere and holder.began != "-" and not holder.lives
    if gone:
        return f"{path} is in use: {holder}, which ran it, has exited, but the script that it started has not"
    if path.parent.name == NOTEBOOKS:
        return f"{path} is in use by another kernel or program, {holder or 'process ?'}"
    return f"{path} is in use by another oomph run, {holder or 'process ?'}; let it finish, or give another --run-dir"


def read_summary(run_dir: Path) -> dict[str, Any]:
    """Return the summary of the run, or an empty dict if there is none or it cannot be read."""
    try:
        document = json.loads(read_own(run_dir, "summary.json"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


@contextmanager
def work_folder(keep: str | None, prefix: str) -> Iterator[Path]:
    """Yield the folder to work in. Raises UsageError if the user chose one that is not empty or cannot be written."""
    if keep is None:
        import tempfile  # late: a kernel waits for this module, but not for a folder

        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    path = Path(keep)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{keep} is not empty: choose another directory")
    except FileExistsError as error:
        raise UsageError(f"{keep} is a file, not a folder: choose another directory") from error
    except OSError as error:
        raise UsageError(f"{keep} cannot be written: {error.strerror}") from error
    yield path.resolve()
