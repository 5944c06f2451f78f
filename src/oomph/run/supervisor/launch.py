"""Turns an `oomph run` request into a supervised run: finds the command, its Python and the run directory."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

from oomph.checkpoint.store import foreign_format as foreign_checkpoints
from oomph.errors import RunDirectoryError, UsageError
from oomph.files.notebook_document import SUFFIX
from oomph.files.oomph_folder import OOMPH, RUNS, folder_of
from oomph.journal.journal import foreign_format as foreign_journal
from oomph.process import process_identity
from oomph.process.command import Command, parse_command, what_runs
from oomph.process.descriptors import LEAST, are_too_few, fill_standard
from oomph.protocol.entropy import fresh
from oomph.protocol.handover import Guarding, Injection
from oomph.redaction.redaction import digest_of_words, know_secrets, redacted_words
from oomph.run.directory.lease import is_held
from oomph.run.directory.run_directory import FINISHED, RunDirectory, RunRecord, file_name, read_record
from oomph.run.directory.unfinished import StoredRun, first_trusted, unfinished_runs
from oomph.run.directory.workers import directory_beside
from oomph.run.report.next_command import command_to_go_on
from oomph.run.scheduled.allocation import Allocation, allocation_of
from oomph.run.scheduled.gathering import Gathering, leaving_if_asked, reachable_name
from oomph.run.scheduled.peers import Peers
from oomph.run.supervisor.closing import RunOutcome, note
from oomph.run.supervisor.cluster import why_not_formed
from oomph.run.supervisor.engine import WorkerEngine
from oomph.run.supervisor.interpreter import python_of
from oomph.run.supervisor.notifying import Target, target_of
from oomph.run.supervisor.settings import MachineAtStart, Settings, look
from oomph.run.supervisor.storing import StoreOfRun, folder_to_resume, open_store
from oomph.run.supervisor.supervise import Supervisor
from oomph.terminal.amounts import counted
from oomph.terminal.console import Voice, say
from oomph.terminal.message import shown_line


@dataclass(frozen=True)
class Request:
    """The request that the user made to `oomph run`."""

    words: tuple[str, ...]
    """The script and its arguments, `-m module ...` or `-- command ...`."""
    run_dir: str | None = None
    runs_dir: Path | None = None
    """The folder whose `.oomph` holds the run if `run_dir` is None, or None for the working directory."""
    resume: str | None = None
    """The run's directory, or "" for the latest unfinished run of the same command, or None for a new run."""
    python: str | None = None
    out: str | None = None
    """The file to save a notebook with its outputs to, or None for the default."""
    guarding: Guarding = field(default_factory=Guarding)
    allowed: frozenset[str] = frozenset()
    """The names of the changes in `ladder.OPT_IN`, which alter the mathematics, that the user has allowed."""
    typed: tuple[str, ...] = field(default=(), compare=False)
    """The options as typed, for the command that resumes the run."""
    notify: str | None = None
    """The command or the web address that receives notifications, or None for none."""
    workers: int = 1
    """The number of processes that run the script at the same time."""
    fewest_workers: int | None = None
    """The number of workers with which an attempt may start if there is no room for all, or None to insist on all."""
    under_scheduler: bool = False
    """True if a scheduler starts the processes, each with its own `oomph run`."""
    engine: Callable[[str], WorkerEngine] | None = field(default=None, compare=False)
    """Returns the engine that starts the workers elsewhere, given the Python of the script; None for no engine."""
    store: str | None = None
    """The URL of the store that the run is copied to, or None for none."""

    @property
    def fewest(self) -> int:
        """The fewest workers that an attempt may start."""
        return self.workers if self.fewest_workers is None else self.fewest_workers


def launch(request: Request) -> RunOutcome:
    """Run the script under supervision until the run is over. Raises OomphError if it cannot be started."""
    fill_standard()
    _check_working_directory()
    command = _with_outputs(parse_command(request.words), request.out)
    mine = _place(request, command) if request.under_scheduler else None
    if mine is not None:
        request = _of_the_job(request, mine, command)
    is_alone = mine is not None or (request.workers == 1 and request.engine is None)
    trouble = "" if is_alone else why_not_formed(command.form, os.environ)
    if trouble:
        raise UsageError(trouble)
    know_secrets([*command.words, *((request.store,) if request.store else ())], os.environ)
    notify = None if request.notify is None else target_of(request.notify)
    _check_directories(request)
    python = python_of(command, request.python, say)
    if request.workers > 1 and are_too_few(1 if mine is not None else request.workers):
        raise UsageError(f"--workers {request.workers} needs more open files at a time than ulimit -n allows: raise it")
    if are_too_few():
        _run_plainly(command, python)
    engine = None if request.engine is None else request.engine(python or sys.executable)
    try:
        if engine is not None:
            engine.connect(request.fewest, request.workers)
        return _supervise(request, command, python, engine, notify, mine)
    finally:
        if engine is not None:
            engine.close()


def _supervise(
    request: Request,
    command: Command,
    python: str,
    engine: WorkerEngine | None,
    notify: Target | None,
    mine: Allocation | None,
) -> RunOutcome:
    store = None
    if request.store is not None:
        if mine is not None:
            raise UsageError("--store copies a run from one machine, and --engine env has several: leave it out")
        store = open_store(request.store, command.words, request.resume is not None)
        request = _with_stored_run(request, store)
    if mine is None or mine.workers == 1:
        run, peers = _open(request, command, python), None
    else:
        with leaving_if_asked(mine):
            run, peers = _gathered(request, command, python, mine)
    if run is None and engine is not None:
        raise UsageError("workers on several machines need a run directory that all of them share: give --run-dir")
    settings = Settings(
        guarding=request.guarding,
        machine_at_start=look(command, python) if engine is None else MachineAtStart(),
        allowed=request.allowed,
        typed=request.typed,
        workers=1 if peers is not None else request.workers,
        fewest_workers=1 if peers is not None else request.fewest,
        python=request.python or "",
        engine=engine,
        notify=notify,
    )
    try:
        return Supervisor(command, python, run, settings, peers, store).supervise()
    finally:
        if run is not None:
            run.close()


def _place(request: Request, command: Command) -> Allocation:
    """Return this process's place in the gang that a scheduler has started. Raises UsageError if there is none."""
    if command.form == "notebook":
        raise UsageError("--engine env runs a script in several processes, and a notebook cannot be saved by several")
    stated = None if request.workers == 1 else request.workers
    mine = allocation_of(os.environ, stated, process_identity.host())
    return mine if mine.host else mine._replace(host=reachable_name())


def _of_the_job(request: Request, mine: Allocation, command: Command) -> Request:
    """Return the request with the run directory that all processes of the job share, unless the user has named it."""
    named = request.run_dir or request.resume
    if not named and not mine.job:
        raise UsageError(f"{mine.who} does not know the name of its job: name the run directory with --run-dir")
    name = f"{mine.job}-{file_name(command.name)}"
    shared = named or str((request.runs_dir or Path()) / OOMPH / RUNS / name)
    return replace(request, run_dir=shared, workers=mine.workers)


def _gathered(request: Request, command: Command, python: str, mine: Allocation) -> tuple[RunDirectory, Peers]:
    """Meet the other workers, and return this one's run directory. Raises OomphError if that fails."""
    shared = Path(str(request.run_dir)).absolute()
    words = redacted_words(command.words)
    if mine.rank > 0:
        own = folder_of(shared, mine.rank)
        roster = Gathering(shared, mine, say, command=words).answer(partial(_check_unfinished, shared, own, command))
        with _named(mine):
            return directory_beside(shared, mine.rank, roster.attempts, words), Peers(shared, mine, roster)
    with _named(mine):
        run = _open(request, command, python)
    if run is None:
        raise RunDirectoryError(f"the run directory {shared} cannot be written")
    try:
        return run, Peers(run.path, mine, Gathering(run.path, mine, say, command=words).call(run.record.attempts))
    except BaseException:
        run.close()
        raise


@contextmanager
def _named(mine: Allocation) -> Iterator[None]:
    """Name this worker and its machine in the errors about its run directory."""
    try:
        yield
    except RunDirectoryError as error:
        raise RunDirectoryError(f"{mine.who}: {error}") from error


def _check_unfinished(shared: Path, own: Path, command: Command) -> None:
    """Raise RunDirectoryError if this worker has run another script in a run that has not finished."""
    run, record = read_record(shared), read_record(own)
    if run is not None and record is not None and run.status != FINISHED:
        _check_script(own, record, command)


def _check_script(path: Path, record: RunRecord, command: Command) -> None:
    if what_runs(record.command) != what_runs(redacted_words(command.words)):
        raise RunDirectoryError(f"{path} is a run of {shown_line(' '.join(record.command))}, not of {command.shown}")


def _with_outputs(command: Command, out: str | None) -> Command:
    """Return the command with the file that a notebook's outputs are saved to. Raises UsageError if it is unusable."""
    if command.form != "notebook":
        if out is not None:
            raise UsageError("--out is for the outputs of a notebook: leave it out")
        return command
    path = Path(command.words[0]).with_suffix(".oomph.ipynb") if out is None else Path(out)
    if out is not None:
        _check_output(path)
    is_writable = os.access(path.parent, os.W_OK | os.X_OK)
    if not is_writable and out is not None:
        trouble = "cannot be written to" if path.parent.is_dir() else "does not exist"
        raise UsageError(f"--out={out}: the folder {path.parent} {trouble}")
    if not is_writable:
        say(f"{path.parent} cannot be written to: the notebook's outputs are not saved; choose a file with --out")
    return replace(command, out=str(path) if is_writable else "")


def _check_output(path: Path) -> None:
    """Raise UsageError if the file after `--out` would take the place of something that is no notebook."""
    try:
        exists, is_file = path.exists(), path.is_file()
    except OSError as error:
        raise UsageError(f"--out={path}: {error.strerror}") from error
    if exists and not is_file:
        raise UsageError(f"--out={path} is a {'folder' if path.is_dir() else 'device or pipe'}: name a file")
    if path.suffix.lower() != SUFFIX:
        raise UsageError(f"--out={path}: name a file that ends in {SUFFIX}")


def _run_plainly(command: Command, python: str) -> NoReturn:
    """Replace this process with the script, so that the script still runs even though oomph cannot."""
    say(f"fewer than {LEAST} files can be open at a time (ulimit -n): running the script without oomph")
    argv = command.argv(python)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from error


def _with_stored_run(request: Request, store: StoreOfRun) -> Request:
    """Return the request with the run directory of the run in the store, if that is to be resumed."""
    if request.resume is None or store.record is None:
        return request
    if store.record.status == FINISHED:
        say(f"nothing to resume: the run in {store.shown} has finished; this is a new run")
        return request if request.resume else replace(request, resume=None)
    found = folder_to_resume(store, store.record, request.resume or request.run_dir, request.runs_dir)
    return replace(request, resume=str(found))


def _open(request: Request, command: Command, python: str) -> RunDirectory | None:
    """Open the run directory, or return None if the default one cannot be written. The script then runs without it."""
    run, why_anew = (None, []) if request.resume is None else _resume(request, command)
    if run is not None:
        note(run, Voice(), python=python, host=process_identity.host(), options=request.typed)
        return run
    created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    host, injection = process_identity.host(), Injection.read()
    entropy = (injection and injection.entropy) or fresh()
    record = RunRecord(
        command.words,
        python,
        os.getcwd(),
        created,
        host=host,
        options=request.typed,
        entropy=entropy,
        workers=request.fewest,
        digest=digest_of_words(command.words),
    )
    explicit = request.run_dir or _anew_in(request)
    if explicit is not None:
        run = RunDirectory.create(Path(explicit), record)  # first, since it may fail: then no new run is announced
    for line in why_anew:
        say(line)
    if run is not None:
        return run
    try:
        return RunDirectory.create_default(command.name, record, request.runs_dir)
    except RunDirectoryError as error:
        if request.runs_dir is not None or request.store is not None:
            raise
        say(f"{error}; running without one: no checkpoints, no journal (choose another place with --run-dir)")
        return None


def _check_working_directory() -> None:
    """Raise UsageError if the working directory was deleted: relative paths and the default run directory need it."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError("the working directory has been deleted: change to one that exists") from error


def _check_directories(request: Request) -> None:
    """Check the run directory that the user specified before anything is written to it."""
    if not request.resume:
        return
    if request.run_dir and os.path.realpath(request.run_dir) != os.path.realpath(request.resume):
        raise UsageError(
            f"--run-dir={request.run_dir} and --resume={request.resume} differ: a run has only one directory"
        )
    _check_may_be_entered(request.resume)
    parent = Path(request.resume).absolute().parent
    if not parent.is_dir():
        raise UsageError(
            f"--resume={request.resume}: there is no folder {parent}; correct the path, or create the folder"
        )


def _check_may_be_entered(resume: str) -> None:
    """Raise UsageError if the folder is inaccessible: it may have a run, whose checkpoints a new run would ignore."""
    try:
        locked = os.path.isdir(resume) and not os.access(resume, os.R_OK | os.X_OK)
        os.stat(resume)
    except PermissionError:
        locked = True
    except OSError:
        return  # it does not exist yet
    if locked:
        raise UsageError(f"--resume={resume} cannot be entered: permission denied")


def _resume(request: Request, command: Command) -> tuple[RunDirectory | None, list[str]]:
    """Return the run to resume, or None and the lines that explain why a new run starts.

    There is nothing to resume when a scheduler starts the script for the first time, for example. A finished run is
    reported immediately instead, because it is renamed immediately.
    """
    named = request.resume or request.run_dir
    stored = [] if named else unfinished_runs(os.getcwd(), request.runs_dir)
    path = Path(named) if named else _newest_of(command, request, stored)
    if named and path is not None and path.exists() and not path.is_dir():
        raise UsageError(f"{named} is a file, not a run directory; --resume=DIR expects a run directory")
    if path is None or (named and not _in_use(path)):
        anew = f"nothing to resume{f' in {named}' if named else ''}: this is a new run"
        return None, [anew, *_with_other_arguments(command, stored)]
    record = read_record(path)
    if record is not None and record.status == FINISHED:
        say(f"nothing to resume: the run in {path} has finished{_set_aside(path)}; this is a new run")
        return None, []
    run = RunDirectory.reopen(path)
    try:
        _check_script(path, run.record, command)
    except RunDirectoryError:
        run.close()
        raise
    if not request.fewest <= run.record.workers <= request.workers:
        run.close()
        raise RunDirectoryError(
            f"{path} is a run of {counted(run.record.workers, 'worker')}, each with its own part of the data: resume it"
            f" with {'as many' if request.under_scheduler else f'--workers {run.record.workers}'}"
        )
    trouble = foreign_journal(path) or foreign_checkpoints(path / "checkpoints")
    if trouble is not None:
        run.close()
        raise RunDirectoryError(f"{path} cannot be resumed: {trouble}")
    words = tuple(redacted_words(command.words))
    if not _is_of(run.record, command):
        started, hidden = shlex.join(run.record.command), " (a value that is hidden)" * (run.record.command == words)
        say(f"the arguments have changed{hidden}: started as `{started}`, resumed as `{shlex.join(words)}`")
    if run.record.host not in ("", process_identity.host()):
        say(f"this run comes from another machine, {run.record.host}; resuming it here, on {process_identity.host()}")
    return run, []


def _newest_of(command: Command, request: Request, stored: Sequence[StoredRun]) -> Path | None:
    """Return the path of the latest run of exactly this command with as many workers."""
    found = first_trusted(
        run for run in stored if request.fewest <= run.record.workers <= request.workers and _is_of(run.record, command)
    )
    return None if found is None else found.path


def _is_of(record: RunRecord, command: Command) -> bool:
    """True if a stored run has exactly this command, including the secrets, of which it has only a digest."""
    return record.command == tuple(redacted_words(command.words)) and record.digest == digest_of_words(command.words)


def _with_other_arguments(command: Command, stored: Sequence[StoredRun]) -> list[str]:
    """Return a line that suggests the latest idle run of the same script with different arguments, if there is one."""
    words = tuple(redacted_words(command.words))
    others = (run for run in stored if not _is_of(run.record, command))
    same_script = (run for run in others if what_runs(run.record.command) == what_runs(words))
    found = first_trusted(run for run in same_script if not is_held(run.path))
    if found is None:
        return []
    again = command_to_go_on(found.record.options, found.record.command, os.path.relpath(found.path))
    return [f"an unfinished run was started with different arguments; to resume it: {again}"]


def _set_aside(path: Path) -> str:
    """Rename the finished run so that the new one can use its path, and return the text that reports this."""
    try:
        finished = RunDirectory.reopen(path)
    except RunDirectoryError:
        return ""
    try:
        if finished.record.status != FINISHED:
            return ""
        aside = path.with_name(finished.set_aside().name)
    except OSError:
        return ""
    finally:
        finished.close()
    return f", and is now in {aside}"


def _anew_in(request: Request) -> str | None:
    """Return the folder given by `--resume=DIR` if it is still empty, as the next start will look for a run there."""
    return request.resume if request.resume and not _in_use(Path(request.resume)) else None


def _in_use(path: Path) -> bool:
    try:
        return any(path.iterdir())
    except OSError:
        return False
