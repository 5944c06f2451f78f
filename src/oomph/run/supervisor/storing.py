"""Keeps a copy of a run in its store (`oomph run --store`), and finds the run there when it is resumed.

The store is read and written by a process of its own (`run/store`). Once the script runs, nothing waits for it, and
whatever fails there is said in one line.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oomph.errors import RunDirectoryError, StoreError
from oomph.files.oomph_folder import make_own_parents
from oomph.files.opening import replace_own
from oomph.process.child import Child, as_stdin
from oomph.process.own_process import isolated_command, isolated_environ, without_own_variables
from oomph.redaction.redaction import redacted_words
from oomph.run.directory.run_directory import RunDirectory, RunRecord, file_name, read_record
from oomph.run.directory.store_state import STATE, StoreState, store_state
from oomph.run.store.object_store import shown_url
from oomph.terminal.console import Ticking, Voice, say
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import shortened

_MODULE = "oomph.run.store.process"
_SILENT_SECONDS = 120.0
"""The time without any progress after which a store counts as hanging."""
_WAIT_SECONDS = 0.2
_MOST_OF_PROBLEM = 300


@dataclass(frozen=True)
class StoreOfRun:
    """A store, and the right to write one generation of it."""

    url: str
    claim: tuple[Any, ...]
    generation: int
    """The generation of the run in it, or 0 if there is none."""
    name: str = ""
    record: RunRecord | None = None

    @property
    def shown(self) -> str:
        """The URL without what may be secret in it."""
        return shown_url(self.url)

    def as_request(self, verb: str) -> dict[str, Any]:
        """Return the start of a request to the process that reads and writes it."""
        return {"verb": verb, "url": self.url, "claim": self.claim}


def open_store(url: str, command: tuple[str, ...], is_resumed: bool) -> StoreOfRun:
    """Claim a store for a run of this command. Raises StoreError if it holds another run or cannot be written."""
    words = redacted_words(command)
    shown = shown_url(url)
    request = {"verb": "open", "url": url, "command": words, "resume": is_resumed}
    for answer in _answers(request, shown, f"opening {shown}"):
        if "claim" in answer:
            return StoreOfRun(
                url, tuple(answer["claim"]), answer["generation"], answer["name"], _record_in(answer["record"], shown)
            )
    raise StoreError(f"{shown} could not be opened: the process that reads it exited")


def _record_in(text: str, shown: str) -> RunRecord | None:
    try:
        return RunRecord.from_json(text) if text else None
    except ValueError as error:
        raise StoreError(f"{shown} holds a run that cannot be resumed: {error}") from error


# -- the run directory of a run in a store ----------------------------------------------------------------------------


def folder_to_resume(store: StoreOfRun, record: RunRecord, named: str | None, within: Path | None) -> Path:
    """Return the run directory in which to resume the run in a store.

    It is fetched, unless a run directory here is at least as new. Raises StoreError or RunDirectoryError.

    Args:
        store: the store, which is claimed.
        record: the record of the run in it.
        named: the run directory that the user named.
        within: the folder of `.oomph` if none is named, or None for the working directory.
    """
    target = Path(named) if named else _default_place(within) / file_name(store.name)
    if target.exists() and not _is_empty(target):
        mine = read_record(target)
        if mine is None or mine.entropy != record.entropy or not record.entropy:
            raise RunDirectoryError(f"{target} is not the run in {store.shown}: name another folder with --resume=DIR")
        if _generation_of(target) >= store.generation:
            return target
        _set_aside(target, store)
    elif target.exists():
        target.rmdir()
    _fetch(store, target.absolute())
    say(f"{target} has been fetched from {store.shown}")
    return target


def _default_place(within: Path | None) -> Path:
    try:
        if within is not None:
            within.mkdir(parents=True, exist_ok=True)
        return make_own_parents(within=within)
    except OSError as error:
        raise RunDirectoryError(f"the run cannot be fetched: {error.strerror}") from error


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except OSError:
        return False


def _set_aside(path: Path, store: StoreOfRun) -> None:
    """Rename a run directory from which the run has since gone on elsewhere."""
    run = RunDirectory.reopen(path)
    try:
        aside = run.set_aside()
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be renamed: {error.strerror}") from error
    finally:
        run.close()
    say(f"the run has gone on elsewhere: {path} is older than {store.shown}, and is now {aside.name}")


def _fetch(store: StoreOfRun, target: Path) -> None:
    request = {**store.as_request("fetch"), "folder": str(target)}
    for answer in _answers(request, store.shown, f"fetching the run from {store.shown}"):
        if "fetched" in answer:
            return
    raise StoreError(f"the run could not be fetched from {store.shown}: the process that reads it exited")


def _generation_of(run_dir: Path) -> int:
    state = store_state(run_dir)
    return 0 if state is None else state.generation


# -- copying ----------------------------------------------------------------------------------------------------------


class Copier:
    """Copies a run directory to its store while the run goes on.

    Args:
        run_dir: the run directory.
        store: the store.
        voice: prints messages for the user.
    """

    def __init__(self, run_dir: Path, store: StoreOfRun, voice: Voice) -> None:
        self._run_dir, self._store, self._voice = run_dir, store, voice
        self._state = StoreState(store.shown, store.claim[0], None)
        self._listens = False
        """True once the process hears that the run is over; before, SIGTERM would kill it."""
        self._note()
        self._child: Child | None = None
        try:
            self._child = _start({**store.as_request("copy"), "folder": str(run_dir)})
        except OSError as error:
            self._fail(f"nothing is copied to {store.shown}: {error.strerror}")

    def attend(self) -> None:
        """Pass on what the copying process has to say. Does not wait."""
        if self._child is not None:
            self._hear(self._child, 0.0)

    def close(self, is_called_off: Callable[[], bool]) -> None:
        """Wait until the end of the run has been copied, and say what is not there.

        Does not wait without any progress, or once `is_called_off` returns True.
        """
        child = self._child
        if child is not None:
            self._wait_for(child, is_called_off)
            child.close()
        self._note()
        left = self._state.in_words()
        if left:
            self._voice.say(f"{left}; it is in the run directory")

    def _wait_for(self, child: Child, is_called_off: Callable[[], bool]) -> None:
        heard, is_told = time.monotonic(), False
        with Ticking() as ticking:
            while child.is_open and time.monotonic() < heard + _SILENT_SECONDS and not is_called_off():
                if self._listens and not is_told:
                    child.send(signal.SIGTERM)
                    is_told = True
                if self._hear(child, _WAIT_SECONDS):
                    heard = time.monotonic()
                ticking.tick(f"copying the run to {self._store.shown}")
        if child.is_open and not is_called_off():
            self._fail(f"{self._store.shown} gives no answer")

    def _hear(self, child: Child, seconds: float) -> bool:
        """Act on what the process says within some time. Return False if it says nothing."""
        answers = [_answer_in(line) for line in child.lines(seconds)]
        for answer in answers:
            self._listens = self._listens or "listens" in answer
            if "missing" in answer:
                self._state = self._state._replace(missing=tuple(answer["missing"]))
            problem = answer.get("refused", answer.get("problem"))
            if isinstance(problem, str):
                self._fail(problem)
        return bool(answers)

    def _fail(self, problem: str) -> None:
        """Note that the store fails, or works again if the problem is empty, and say so once."""
        text = shortened(shown_line(problem), _MOST_OF_PROBLEM)
        if text != self._state.problem:
            self._state = self._state._replace(problem=text)
            self._note()
            self._voice.say(f"{text}; the training goes on" if text else f"{self._store.shown} works again")

    def _note(self) -> None:
        try:
            replace_own(self._run_dir, STATE, self._state.to_json())
        except OSError:
            pass  # the run directory cannot be written, which others say


# -- the process that does it -----------------------------------------------------------------------------------------


def _start(request: Mapping[str, Any]) -> Child:
    """Start the process. Raises OSError if that is not possible."""
    environ = isolated_environ(without_own_variables(os.environ))
    with as_stdin({**request, "parent": os.getpid()}) as stdin:
        return Child(isolated_command(_MODULE), environ, stdin=stdin)


def _answers(request: Mapping[str, Any], shown: str, waiting: str) -> Iterator[dict[str, Any]]:
    """Yield what the process answers, until it exits. Raises StoreError if it refuses, or makes no progress."""
    try:
        child = _start(request)
    except OSError as error:
        raise StoreError(f"{shown} cannot be opened: {error.strerror}") from error
    heard = time.monotonic()
    with child, Ticking() as ticking:
        while child.is_open and time.monotonic() < heard + _SILENT_SECONDS:
            for line in child.lines(_WAIT_SECONDS):
                heard, answer = time.monotonic(), _answer_in(line)
                if "refused" in answer:
                    raise StoreError(shown_line(str(answer["refused"])))
                yield answer
            ticking.tick(waiting)
        if child.is_open:
            raise StoreError(f"{shown} gives no answer")


def _answer_in(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        return {}  # a library of the store prints
    return answer if isinstance(answer, dict) else {}
