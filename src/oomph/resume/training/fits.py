"""Fits: all fits of one process, in order, with the journal, checkpoint store and step count that they share."""

from __future__ import annotations

import functools
import os
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from oomph import testing
from oomph.checkpoint import final_checkpoints
from oomph.checkpoint.container import Checkpoint
from oomph.checkpoint.final_checkpoints import FinalCheckpoints
from oomph.checkpoint.interval import CheckpointInterval, seconds_between_faults
from oomph.checkpoint.origin import key_name, key_of
from oomph.checkpoint.store import CheckpointStore, Record, Saved
from oomph.checkpoint.witness import WitnessBoard
from oomph.errors import CheckpointError
from oomph.exact_step.micro_batch.exactness import SMALLER, Promise
from oomph.exact_step.step.probe import ProbeFinding
from oomph.journal.events import (
    AppendedAgain,
    CheckpointFailed,
    CheckpointRefused,
    CheckpointSaved,
    FitFinished,
    FitStarted,
    MicroBatchesProbed,
    NoWitnesses,
    VariablesRead,
)
from oomph.journal.fact import Fact
from oomph.journal.journal import facts, pairs, read_journal
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.workers import spans_workers
from oomph.monitor.board import TrainingBoard
from oomph.monitor.live.meter import Meter
from oomph.monitor.live.pacing import Pacing, has_peers
from oomph.protocol.border_boards import MappedBorderBoard, SharedBorderBoard
from oomph.protocol.borders import CommonBorders
from oomph.protocol.progress import Phase, Progress, read_progress
from oomph.protocol.reasons import because
from oomph.resume.training.call_place import Place, place_of_call
from oomph.resume.training.identity import FitIdentity, fingerprint, visit_key
from oomph.resume.training.known_fits import WasEdited, state_of
from oomph.resume.training.step_profile import StepProfile
from oomph.resume.training.visits import Visits
from oomph.script import environment_read, guarded_trainings
from oomph.script.background import Background
from oomph.script.kept_micro_batches import MicroBatches, Start
from oomph.script.opened_files import Appends, OpenedFiles
from oomph.script.preemption import Preemption
from oomph.script.restorable import is_from_elsewhere, take_from_elsewhere
from oomph.script.session import Session

_SOME = 5
"""The number of lines of one kind after which a single general line is printed instead of any more."""


class Fits:
    """The fits of this process. Only the owner process has a store; in others, fits are guarded but never saved."""

    def __init__(self, session: Session) -> None:
        self.session = session
        handover = session.handover
        self.interval = CheckpointInterval(handover.guarding.checkpoint_steps, handover.guarding.checkpoint_seconds)
        self.steps = 0
        """The number of steps committed so far by all fits of the run, including finished fits of earlier attempts."""
        self.saved = 0
        self.saving_seconds = 0.0
        """The total time, in seconds, that training has waited for checkpoints and end states."""
        self.end_state_seconds = 0.0
        """The time, in seconds, that training waited for the latest end state; 0 before the first."""
        self.typical_stall, self.measured = 0.0, 0
        """The typical stall per checkpoint, in seconds, and the number of stalls measured in this process."""
        self.before = _progress_before(session)
        """The progress of the previous attempt, or None if this is the first."""
        self.running: Any = None
        self._ordinal = 0
        self._lock = threading.Lock()
        self.background: Background[Saved] = Background()
        """Writes checkpoints while training continues."""
        self._began = time.monotonic()
        self._seconds_before = 0.0
        self._store: CheckpointStore | None = None
        self._records: list[Record] = []
        """The states that earlier attempts saved, newest first; the end states of fits come last."""
        self._begun: dict[int, str] = {}
        """The fingerprints of this process's fits, by their numbers."""
        self._visits = Visits(session.execution)
        """The calls to `fit` so far from each place in the script."""
        self._left: set[int] = set()
        """The numbers of the fits that earlier attempts left unfinished and that have not finished since."""
        self._had_left = False
        self.took_another_path = False
        """True if a fit was not the one expected at that point, in which case later fits may also differ."""
        self._refusals: list[final_checkpoints.Refusal] = []
        """The unreadable checkpoints that have not been reported yet."""
        self.lacks_common = False
        """True if a checkpoint that all workers were to resume from cannot be read here."""
        self._end_states = FinalCheckpoints()
        self._opened = False
        self.is_over = False
        """True once oomph is disabled in this process."""
        self._closed = False
        """True if this process no longer writes checkpoints."""
        self._said: set[str] = set()
        self._some: dict[str, set[str]] = {}
        self._read: list[str] = []
        """The names of the environment variables that training depends on and that are set, as last recorded."""
        self.preemption = Preemption(session.pulse, lambda: self._is_unsaved, session.say, session.owns_the_group)
        self.witnesses = _witness_board(session)
        """The board for this process's witnesses, or None in workers or without a run directory."""
        self._board = _training_board(session)
        self.meter = Meter(self._board, self.say_once, pacing=_pacing(session))
        """Measures training for the monitor."""
        self.profile = StepProfile(session)
        """Records some steps with TensorFlow's profiler, if that was asked for."""
        self._borders: CommonBorders | None = None
        """The borders at which this process saves or stops together with the other workers, once they train."""
        self.files = OpenedFiles(session.run_dir, self._appends())
        """The files that the script opens while it trains."""
        self.passed_on: list[Any] = []
        """The Python iterators that resumed fits have read from; each may be further ahead than without the fault."""
        self.context_lost = ""
        """The fault that destroyed this process's GPU context, if any. After that, nothing more is saved."""

    @property
    def _is_unsaved(self) -> bool:
        """True if Ctrl-C should wait for a checkpoint, as it always does for one of all workers."""
        return self.can_save and (self.steps > self.saved or self._borders is not None)

    def common_borders(self, strategy: Any) -> CommonBorders | None:
        """Return the borders at which all workers save or stop, or None if a training waits for no other worker."""
        session = self.own_session()
        rank, workers = session.handover.rank, session.handover.workers
        if workers == 1 or session.run_dir is None or not session.is_owner_now() or not spans_workers(strategy):
            return None
        if self._borders is None:
            first, start = session.run_dir if rank == 0 else session.run_dir.parent.parent, session.handover.start
            try:
                board = (
                    SharedBorderBoard(first, start, rank, workers)
                    if start
                    else MappedBorderBoard(first, session.handover.attempt, rank, workers)
                )
                self._borders = CommonBorders(board, rank)
            except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no thread can be started
                self.warn_once(f"{first}: {error}: the workers do not save at the same steps")
        return self._borders

    def _appends(self) -> Appends | None:
        run_dir = self.session.run_dir
        if run_dir is None or not self.session.owner:
            return None
        return Appends(run_dir, self.session.handover.attempt, self._tell_append)

    def _tell_append(self, path: str, site: str) -> None:
        name = os.path.relpath(path)
        self.note(AppendedAgain(path=name, site=site))
        self.warn(f"{site} appends to {name} again: an earlier attempt already did")

    def own_session(self) -> Session:
        """Return this process's session. A fork of the owner becomes a worker with its own journal."""
        own = self.session.in_this_process()
        if own is not self.session:
            self.session, self._store = own, None
        return self.session

    def claim(self, fit: Any) -> bool:
        """Make `fit` the running fit; return False if another is already running (a nested fit, or another thread)."""
        with self._lock:
            if self.running is not None:
                return False
            self.running = fit
        try:
            guarded_trainings.begins()
        except BaseException:  # Ctrl-C, before anything else could release the claim
            self.release()
            raise
        return True

    def identify(self, model: Any) -> tuple[FitIdentity, Place]:
        """Return the identity of the fit that is starting, and its place."""
        place = place_of_call()
        return self.identify_at(place, fingerprint(model)), place

    def identify_at(self, place: Place, fingerprint: str) -> FitIdentity:
        """Return the identity of the fit or loop that is starting at this place in the script."""
        store = self.store()
        is_recovering = bool(self._left) or not self._had_left
        occurrence, is_anew = self._visits.next(
            place.key,
            is_recovering,
            self._is_taken,
            place.cell or place.cell_code,
            lambda key, number: not place.cell and self._was_interrupted(key, number, fingerprint),
        )
        if is_anew and store is not None:
            self._forget(store, visit_key(place.key, occurrence))
        self._note_read()
        ordinal = self._ordinal
        self._ordinal += 1
        return FitIdentity(ordinal, place.site, fingerprint, place.key, occurrence, place.outline, place.cell)

    def _is_taken(self, place: str, occurrence: int) -> bool:
        """True if an earlier attempt has left the result of a visit, or a fit that this process may still resume."""
        mine = [record for record in self._records if record.meta.key == visit_key(place, occurrence)]
        return any(record.finished or record.position.fit not in self._begun for record in mine)

    def _was_interrupted(self, place: str, occurrence: int, fingerprint: str) -> bool:
        """True if an earlier attempt left this visit unfinished, with a model like this, and it has not resumed yet."""
        mine = [record for record in self._records if record.meta.key == visit_key(place, occurrence)]
        return bool(mine) and not any(
            record.finished or record.position.fit in self._begun or record.meta.fingerprint != fingerprint
            for record in mine
        )

    @functools.cached_property
    def not_kept(self) -> frozenset[str | None]:
        """The keys of the fits that earlier attempts finished, but whose end states were too expensive to keep."""
        session = self.own_session()
        run_dir, attempt = session.run_dir, session.handover.attempt
        if run_dir is None or attempt == 1 or not session.is_owner_now():
            return frozenset()
        finished = pairs(read_journal(run_dir), FitFinished)
        return frozenset(fit.key for event, fit in finished if event.attempt < attempt and fit.too_dear)

    def _forget(self, store: CheckpointStore, key: str) -> None:
        """Forget a fit that did not finish, since its cell runs again."""
        store.drop_unfinished(key)
        dropped = [record for record in self._records if record.meta.key == key and not record.finished]
        self._records = [record for record in self._records if record not in dropped]
        self._left -= {record.position.fit for record in dropped}

    def has_finished(self, identity: FitIdentity) -> None:
        """Record that a fit or loop has finished, or that its earlier result was returned."""
        self._visits.finish(identity.place, identity.occurrence)
        self._left.discard(identity.ordinal)

    def turn_away(self, identity: FitIdentity) -> None:
        """Keep the checkpoints of a fit that does not resume from them: a script exits, but a cell may be run again."""
        if self.session.ending is None:
            self.keep_store_as_it_is()
        else:
            self._visits.give_back(identity.place)
            self._begun.pop(identity.ordinal, None)
            self._ordinal -= 1

    def _note_read(self) -> None:
        """Record the environment variables that training depends on and that are set, for the resume command."""
        read = sorted(name for name, value in environment_read.of_training().items() if value is not None)
        if read != self._read:
            self._read = read
            self.note(VariablesRead(variables=read))

    def known_state(self, identity: FitIdentity, was_edited: WasEdited) -> Record | None:
        """Return the latest state that an earlier attempt saved for this fit, preferably its end state."""
        self.store()
        known = self._usable()
        if not self.session.handover.guarding.resumes_edited:
            known = [record for record in known if not was_edited(record)]
        return state_of(identity, known, self._begun, was_edited)

    def _usable(self) -> list[Record]:
        """Return the saved states, without those that `--start-over` ignores."""
        since = self.session.handover.guarding.ignore_before
        return [r for r in self._records if since is None or (r.meta.taken_at or 0.0) >= since]

    def interrupted_sites(self) -> list[str]:
        """Return the file and line of each fit that earlier attempts left unfinished."""
        left = [r for r in self._usable() if not r.finished and r.position.fit not in self._begun]
        return sorted({record.meta.site or "?" for record in left})

    def sites_of_skipped(self, identity: FitIdentity) -> list[str]:
        """Return the sites of fits that have not run here, but whose training a resumed fit's state may include.

        Not all cells of a notebook need to run again; in earlier attempts, they may have run several times.
        """
        skipped = (r for r in self._records if r.finished and r.position.fit not in self._begun)
        alike = (r for r in skipped if r.position.fit < identity.ordinal and r.meta.fingerprint == identity.fingerprint)
        return sorted({*(record.meta.site or "?" for record in alike), *self._left_before(identity)})

    def _left_before(self, identity: FitIdentity) -> list[str]:
        """Return the file and line of each fit of such a model that began before this one, in the kernel where it did.

        A fit that was interrupted leaves no checkpoint once its cell has run again, but its steps are in the model.
        """
        if self.session.run_dir is None:
            return []
        seen: list[tuple[int, FitStarted]] = []
        for event, fit in pairs(read_journal(self.session.run_dir), FitStarted):
            if fit.fit == identity.ordinal:
                earlier = (before for attempt, before in seen if attempt == event.attempt)
                left = [e for e in earlier if e.fingerprint == identity.fingerprint and e.fit not in self._begun]
                return [each.site or "?" for each in left]
            seen.append((event.attempt, fit))
        return []

    def number(self, identity: FitIdentity, known: Record | None) -> FitIdentity:
        """Return the fit's identity with its number in the run: that of the state it resumes from, or an unused one."""
        self.store()  # saved states keep their numbers, even if no fit resumes from them
        taken = self._begun.keys() | {record.position.fit for record in self._records}
        if known is not None:
            number = known.position.fit
        else:
            number = identity.ordinal if identity.ordinal not in taken else max(taken) + 1
        self._begun[number] = identity.fingerprint
        return replace(identity, ordinal=number)

    def release(self) -> None:
        """Record that no fit is running."""
        self.running = None
        guarded_trainings.ends()

    def store(self) -> CheckpointStore | None:
        """Return the checkpoint store, or None in workers, without a run directory, or if it cannot be opened."""
        session = self.own_session()
        if support.lacks(Feature.RESUME):
            return None
        if not self._opened and session.is_owner_now() and session.run_dir is not None:
            self._opened = True
            key = key_of(session.run_dir, session.handover.entropy)
            store = CheckpointStore(session.run_dir / "checkpoints", self._refused, key, self._of_elsewhere)
            try:
                store.open()
                self._store, self._records = store, store.records()
                if store.is_empty:
                    self._tell_gone(session.run_dir)
                is_notebook = session.execution is not None
                finished = {
                    r.position.fit for r in self._records if r.finished or (is_notebook and r.meta.key in self.not_kept)
                }
                self._left = {r.position.fit for r in self._records} - finished
                self._had_left = bool(self._left)
                seconds = [r.meta.seconds for r in self._records]
                self._seconds_before = max((float(s) for s in seconds if isinstance(s, (int, float))), default=0.0)
            except CheckpointError as error:
                session.journal.write(CheckpointFailed(reason=str(error)))
                session.warn(f"no checkpoints: {error}")
        return self._store if session.is_owner_now() and not self._closed else None

    def _tell_gone(self, run_dir: Path) -> None:
        """Report it if earlier attempts saved checkpoints, but none are left."""
        if self.session.handover.attempt == 1 or self.session.execution is not None:
            return  # nothing was saved yet, or cells that ran again have dropped it
        steps = max((saved.steps for saved in facts(read_journal(run_dir), CheckpointSaved)), default=0)
        if steps:
            reason = because("checkpoints-gone", steps=steps)
            self.session.journal.write(CheckpointRefused(name="", **reason.as_fields()))
            self.session.warn(f"{reason}: training starts from the beginning")

    def _of_elsewhere(self, name: str) -> None:
        """Restore only numbers from now on, since this checkpoint was not sealed with this run's key."""
        if not is_from_elsewhere():
            self.session.warn(
                f"{name} was not written here: its numbers are restored, but not its text and files. If you trust it,"
                f" put the file {key_name()} from its original folder next to the run directory"
            )
        take_from_elsewhere()

    @property
    def can_save(self) -> bool:
        """True once the store is open, unless this process must not save anything more."""
        return self._store is not None and not self._closed and not self.context_lost

    def finished(self, number: int) -> Checkpoint | None:
        """Return the end state of a fit that an earlier attempt finished, if it exists and is readable."""
        store = self.store()
        found = None if store is None else store.finished(number)
        self._tell_refused(final_checkpoints.of_end_states(self._refusals))
        return found

    def checkpoint_of(self, number: int) -> Checkpoint | None:
        """Return the latest intact checkpoint from within a fit, if there is one."""
        store = self.store()
        found = None if store is None else store.latest_step(number)
        self._tell_refused(final_checkpoints.of_steps(self._refusals, None if found is None else found.name))
        return found

    def checkpoint_before(self, newer: Checkpoint) -> Checkpoint | None:
        """Return the latest intact checkpoint of the same fit that is older than `newer`, if there is one.

        A worker has none, since the others would still resume from the newer one.
        """
        store = self.store()
        return None if store is None or self.session.handover.workers > 1 else store.step_before(newer)

    def note_end_state(self, saved: Saved) -> None:
        """Record that the end state of a fit was saved."""
        line = self._end_states.add(saved.nbytes)
        if line:
            self.say(line)

    def trained_seconds(self) -> float:
        """Return the run's total training time so far, in seconds, over all attempts recorded in checkpoints."""
        return self._seconds_before + time.monotonic() - self._began

    def seconds_between_faults(self) -> float:
        """Return the mean time, in seconds, between interruptions; every attempt but the first follows one."""
        return seconds_between_faults(self.session.handover.attempt - 1, self.trained_seconds())

    def free_bytes(self) -> int | None:
        """Return the free space, in bytes, on the run directory's disk, or None if unknown."""
        try:
            return None if self.session.run_dir is None else shutil.disk_usage(self.session.run_dir).free
        except OSError:
            return None

    def note(self, fact: Fact) -> None:
        """Write an event to this process's journal."""
        self.own_session().journal.write(fact)

    def say(self, text: str) -> None:
        """Report an event."""
        self.own_session().say(text)

    def warn(self, text: str) -> None:
        """Report a problem that the user should act on."""
        self.own_session().warn(text)

    def say_once(self, text: str, about: str = "") -> bool:
        """Report an event, but only once per process; return True the first time.

        Args:
            about: the subject of a text with changing figures, of which only the first is reported.
        """
        if not self._is_new(about or text):
            return False
        self.say(text)
        return True

    def warn_once(self, text: str, about: str = "") -> bool:
        """Report a problem that the user should act on, but only once per process; return True the first time.

        Args:
            about: the subject of a text that may change, of which only the first is reported.
        """
        if not self._is_new(about or text):
            return False
        self.warn(text)
        return True

    def _is_new(self, text: str) -> bool:
        """True if this process has not said the text yet. Remembers the text."""
        if text in self._said:
            return False
        self._said.add(text)
        return True

    def say_some(self, text: str, after: str) -> None:
        """Report an event once per process; after five lines with the same `after`, write `after` instead."""
        lines = self._some.setdefault(after, set())
        lines.add(text)
        self.say_once(text if len(lines) <= _SOME else after)

    def write_board(self, ordinal: int, epoch: int, step: int, is_epoch_over: bool = False) -> None:
        """Update the progress board."""
        if self.session.board is None:
            return
        self.session.board.write(ordinal, epoch, step, self.steps, self.saved, is_epoch_over)
        if not is_epoch_over:
            testing.steps_committed(self.steps)

    def note_probe(self, promise: Promise, finding: ProbeFinding, **where: Any) -> None:
        """Record and print what a probe found out about micro-batches."""
        self.note(
            MicroBatchesProbed(
                kind=promise.kind, reason=promise.reason, coupling=promise.coupling, **finding.facts(), **where
            )
        )
        during = f" in {where['during']}" if where.get("during") else ""
        what = promise if promise.kind == SMALLER else f"micro-batches{during}: {promise}"
        self.say(f"{what}" + ("" if not finding.samples else f" ({finding})"))

    def beat(self, phase: Phase, fit: int | None = None) -> None:
        """Send a heartbeat to the supervisor."""
        self.session.pulse.beat(phase, fit)

    # -- remembered micro-batches ---------------------------------------------------------------------------------

    def remembered_micro_batch(self, fit: FitIdentity) -> Start | None:
        """Return the micro-batch found for this fit or a similar one; otherwise the one that the user specified."""
        handover = self.session.handover
        found = MicroBatches(self.session.run_dir).of([f"fit {fit.ordinal}", fit.fingerprint])
        given, most = handover.guarding.micro_batch, handover.most_samples
        if found is None:
            return None if given is None and most is None else Start(min(n for n in (given, most) if n is not None))
        return found.at_most(most)

    def remember_micro_batch(self, fit: FitIdentity, start: Start) -> None:
        """Remember a micro-batch for later attempts, and for later fits of a similar model."""
        if self.own_session().is_owner_now():
            MicroBatches(self.session.run_dir).keep([f"fit {fit.ordinal}", fit.fingerprint], start)

    def close(self) -> None:
        """Leave the signals to Python and close all files; no fit may be running, and none can start afterwards."""
        self.is_over = True
        self.preemption.end()
        self.files.close()
        if self._borders is not None:
            self._borders.close()
        self.background.take(wait=True)
        self.meter.is_off = True
        for board in (self.witnesses, self._board):
            if board is not None:
                board.close()

    def keep_store_as_it_is(self) -> None:
        """Stop saving, since the stored checkpoints do not match what this process trains."""
        self._store, self._closed = None, True

    def _refused(self, name: str, reason: str) -> None:
        self.lacks_common = self.session.handover.workers > 1
        self.session.journal.write(CheckpointRefused(name=name, reason=reason))
        self._refusals.append((name, reason))

    def _tell_refused(self, lines: list[str]) -> None:
        self._refusals.clear()
        for line in lines:
            self.session.say(line)


def _progress_before(session: Session) -> Progress | None:
    if session.handover.attempt == 1 or not session.is_owner_now() or session.run_dir is None:
        return None
    return read_progress(session.run_dir)


def _witness_board(session: Session) -> WitnessBoard | None:
    if not session.is_owner_now() or session.run_dir is None:
        return None
    try:
        return WitnessBoard(session.run_dir, session.handover.attempt)
    except OSError as error:  # a full disk must not stop training
        session.journal.write(NoWitnesses(reason=str(error.strerror or error)))
        return None


def _training_board(session: Session) -> TrainingBoard | None:
    if not session.is_owner_now() or session.run_dir is None:
        return None
    try:
        return TrainingBoard(session.run_dir)
    except OSError:
        return None  # a full disk must not stop training


def _pacing(session: Session) -> Pacing | None:
    if not session.is_owner_now() or session.run_dir is None or not has_peers():
        return None
    try:
        return Pacing(session.run_dir, session.handover.attempt)
    except OSError:
        return None  # a full disk must not stop training
