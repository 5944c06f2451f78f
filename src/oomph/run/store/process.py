"""The process that reads and writes a store, so that a store that hangs or fails disturbs nobody.

It reads one request as JSON on stdin, and answers with lines of JSON on stdout. A URL may hold a password, and is
therefore not among its arguments.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oomph.errors import StoreError, SupersededError
from oomph.process.command import what_runs
from oomph.process.process_identity import ProcessIdentity
from oomph.process.spawn import die_with
from oomph.redaction.redaction import know_secrets
from oomph.run.directory.run_directory import FINISHED, RunRecord
from oomph.run.store.claims import claim_after, newest_claim, newest_manifest
from oomph.run.store.copying import Copying
from oomph.run.store.fetching import fetch
from oomph.run.store.layout import StoreManifest, WriteClaim
from oomph.run.store.object_store import ObjectStore, reason_of, shown_url
from oomph.terminal.message import shown_line

MODULE = "oomph.run.store.process"
LOOK_SECONDS = 2.0
"""The pause between two looks for a new checkpoint, which is copied at once."""
OTHERS_SECONDS = 30.0
"""The time after which journals and other files are copied."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5.0, 300.0
_NICENESS = 10
LAST_TRIES, LAST_PAUSE_SECONDS = 3, 2.0
"""The number of tries for the last round when the run is over, and the pause between them."""


def main() -> int:
    """Do what the request on stdin asks for, and return the exit code."""
    request = json.load(sys.stdin)
    die_with(request["parent"])  # whoever resumes the run goes on copying it
    know_secrets([request["url"]], os.environ)
    try:
        objects = ObjectStore(request["url"])
        {"open": _open, "fetch": _fetch, "copy": _copy}[request["verb"]](objects, request)
    except StoreError as error:
        _answer(refused=str(error))
        return 1
    except Exception as error:  # of a library below fsspec
        _answer(refused=f"{shown_url(request['url'])} cannot be used: {reason_of(error)}")
        return 1
    return 0


def _answer(**values: Any) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps(values).encode() + b"\n")
    except OSError:
        os._exit(1)  # nobody listens


def _go_on() -> None:
    """Let the parent know that there is progress."""
    _answer(part=True)


# -- open -------------------------------------------------------------------------------------------------------------


def _open(objects: ObjectStore, request: Mapping[str, Any]) -> None:
    """Claim the next generation, if the store is empty or holds the run that is to be resumed."""
    newest = newest_claim(objects)
    found = newest_manifest(objects, newest)
    if found is not None:
        _check(objects.shown, found, request)
    if newest is not None and newest.owner.lives:
        raise StoreError(f"{objects.shown} is in use by another oomph run, {newest.owner}; let it finish")
    claim = claim_after(objects, newest, ProcessIdentity.here(request["parent"]))
    found = newest_manifest(objects, newest)  # again: until now, its owner may have written another
    _answer(
        claim=[claim.generation, list(claim.owner), claim.nonce],
        generation=0 if found is None else found.generation,
        name="" if found is None else found.name,
        record="" if found is None else found.record,
    )


def _check(shown: str, found: StoreManifest, request: Mapping[str, Any]) -> None:
    try:
        record = RunRecord.from_json(found.record)
    except ValueError as error:
        raise StoreError(f"{shown} holds a run that cannot be resumed: {error}") from error
    words = tuple(request["command"])
    if what_runs(record.command) != what_runs(words):
        raise StoreError(
            f"{shown} holds a run of {shown_line(' '.join(record.command))}, not of {shown_line(' '.join(words))}:"
            " choose another --store"
        )
    if not request["resume"]:
        what, go_on = ("finished run", "") if record.status == FINISHED else ("run", ", or continue it with --resume")
        raise StoreError(f"{shown} already holds a {what}: choose another --store{go_on}")


# -- fetch ------------------------------------------------------------------------------------------------------------


def _fetch(objects: ObjectStore, request: Mapping[str, Any]) -> None:
    claim = _claim_in(request)
    found = newest_manifest(objects, claim._replace(generation=claim.generation - 1))
    if found is None:
        raise StoreError(f"{objects.shown} holds no run any more")
    fetch(objects, found, Path(request["folder"]), _go_on)
    _answer(fetched=len(found.files))


def _claim_in(request: Mapping[str, Any]) -> WriteClaim:
    generation, owner, nonce = request["claim"]
    return WriteClaim(generation, ProcessIdentity(*owner), nonce)


# -- copy -------------------------------------------------------------------------------------------------------------


class _Rounds:
    """Copies a run round by round, and tries a store that fails again more and more rarely."""

    def __init__(self, copying: Copying, shown: str) -> None:
        self._copying, self._shown = copying, shown
        self._due = time.monotonic()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._problem = ""

    def attend(self) -> None:
        """Copy if it is time to, or if there is a new checkpoint."""
        is_waiting = bool(self._problem) and time.monotonic() < self._due
        if is_waiting or (time.monotonic() < self._due and not self._copying.has_new_checkpoint()):
            return
        if self.is_copied():
            self._due, self._pause_seconds = time.monotonic() + OTHERS_SECONDS, _FIRST_PAUSE_SECONDS
        else:
            self._due = time.monotonic() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def is_copied(self) -> bool:
        """Copy now, and return True if that succeeds. The parent hears when that changes."""
        try:
            self._copying.round()
        except SupersededError:
            raise
        except Exception as error:
            is_of_store = isinstance(error, StoreError)
            problem = str(error) if is_of_store else f"nothing is copied to {self._shown}: {reason_of(error)}"
            if problem != self._problem:
                self._problem = problem
                _answer(problem=problem, missing=self._copying.missing())
            return False
        if self._problem:
            self._problem = ""
            _answer(problem="")
        return True


def _copy(objects: ObjectStore, request: Mapping[str, Any]) -> None:
    """Copy the run directory until SIGTERM says that the run is over."""
    os.nice(_NICENESS)
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    _answer(listens=True)
    copying = Copying(objects, Path(request["folder"]), _claim_in(request), _go_on)
    rounds = _Rounds(copying, objects.shown)
    while not is_over.wait(LOOK_SECONDS):
        rounds.attend()
    for number in range(LAST_TRIES):
        if rounds.is_copied():
            break
        time.sleep(LAST_PAUSE_SECONDS if number + 1 < LAST_TRIES else 0.0)
    _answer(missing=copying.missing())


if __name__ == "__main__":
    sys.exit(main())
