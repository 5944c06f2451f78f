"""Defines the events of a journal, with one frozen class for each, to be used with `match`. Used in both processes.

A field that does not apply or was not measured is None, and is not written to the journal. A missing or damaged field
is set to its default. `docs/reference/run-directory.md` explains what each field means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from oomph.journal.fact import Fact

_NOTHING: Mapping[str, Any] = MappingProxyType({})
ReasonData = Mapping[str, Any] | str
"""A reason as JSON: its code and values (`protocol/reasons.py`), or plain text."""
Loops = Sequence[tuple[str, int, int]]
"""The file, first line and last line of each training loop around a step."""


class AtStep(Fact):
    """The position in training. The fields are None outside of training."""

    fit: int | None = None
    epoch: int | None = None
    step: int | None = None


# -- from the supervisor ----------------------------------------------------------------------------------------------


class RunStarted(Fact, event="run-started"):
    """An `oomph run` invocation has started."""

    oomph: str = ""
    start_over: bool = False
    profile: Sequence[int] | None = None


class MachineSeen(Fact, event="machine"):
    """The machine as `oomph doctor` sees it, and the environment variables that were set for the script."""

    snapshot: Mapping[str, Any] | None = None
    repairs: Mapping[str, Any] = _NOTHING


class AttemptStarted(Fact, event="attempt-started"):
    """The script is about to be started."""

    python: str = ""
    command: Sequence[str] = ()
    newest_checkpoint: int | None = None
    host: str = ""
    gpus: Sequence[Mapping[str, Any]] = ()


class AttemptEnded(Fact, event="attempt-ended"):
    """The script's process has exited. The return code is None if the supervisor was killed too, and never saw it."""

    returncode: int | None = 0
    seconds: float = 0.0
    steps: int = 0
    saved: int = 0
    oom_kills: int | None = None
    peak_rss_bytes: int | None = None
    device_peak_bytes: int | None = None
    input_wait: float | None = None


class Diagnosed(Fact, event="diagnosed"):
    """The fault that ended an attempt, and other faults for which there is evidence."""

    fault: str = ""
    code: str = ""
    also: Sequence[Mapping[str, str]] = ()


class Decided(Fact, event="decided"):
    """The action taken after an attempt, with all the facts that the decision is based on."""

    action: str = ""
    reason: str = ""
    exit_code: int | None = None
    change: Mapping[str, str] | None = None
    rung: int | None = None
    ending: Mapping[str, Any] | None = None
    conditions: Mapping[str, Any] = _NOTHING
    allowed: Sequence[str] = ()
    ledger: Mapping[str, Any] | None = None


class WorkerFailed(Fact, event="worker-failed"):
    """One of several workers failed on its own. The `cause` is the failure from which the others follow."""

    worker: int = 0
    returncode: int = 0
    fault: str = ""
    cause: bool = False


class Hung(Fact, event="hang"):
    """The script made no progress for longer than its phase allows. The worker is None if there is only one."""

    worker: int | None = None

    phase: str = ""
    fit: int | None = None
    seconds: float | None = None
    limit_seconds: float | None = None
    line: str = ""
    stacks: str = ""


class KernelLogRead(Fact, event="kernel-log"):
    """Lines of the kernel log about the script and its GPUs."""

    lines: Sequence[str] = ()


class GpuMemoryHeld(Fact, event="gpu-memory-held"):
    """GPU memory is still in use although the script has exited."""


class GpuMemoryBack(Fact, event="gpu-memory-back"):
    """The GPU's memory is free again."""

    seconds: float = 0.0


class Unkillable(Fact, event="unkillable"):
    """A process survived SIGKILL."""

    reason: str = ""


class FindingMade(Fact, event="finding"):
    """A finding from the monitor, or from the script's own process about its data."""

    fault: str = ""
    code: str = ""
    subject: str = ""
    kind: str = ""
    message: str = ""
    severity: str = "warning"
    remedy: str = ""
    figures: Mapping[str, Any] = _NOTHING
    again: bool = False


class FindingOver(Fact, event="finding-ended"):
    """A finding has ended."""

    fault: str = ""
    subject: str = ""
    kind: str = ""
    until: float | None = None
    seconds: float = 0.0


class RunEnded(Fact, event="run-ended"):
    """An `oomph run` invocation is about to exit."""

    exit_code: int | None = None


# -- from the script: the process -------------------------------------------------------------------------------------


class ProcessStarted(Fact, event="process-started"):
    """A Python process of the script has loaded oomph."""

    pid: int | None = None
    python: str = ""
    version: str = ""
    argv: Sequence[str] = ()


class CellStarted(Fact, event="cell-started"):
    """A cell of a notebook starts to run."""

    cell: int | None = None
    line: str = ""


class VariablesRead(Fact, event="environment-read"):
    """The names of the environment variables that training depends on and that are set."""

    variables: Sequence[str] = ()


class GuardInstalled(Fact, event="guard-installed"):
    """Keras is now guarded."""

    keras: str = ""


class GuardFailed(AtStep, event="guard-failed"):
    """A part of oomph failed, and training continues without it."""

    reason: str = ""


class FeatureOff(Fact, event="feature-off"):
    """A feature is turned off because a private name in Keras or TensorFlow is missing."""

    name: str = ""
    feature: str = ""


class NoWitnesses(AtStep, event="no-witnesses"):
    """The witnesses with which a resume would be compared could not be created."""

    reason: str = ""


class UncaughtException(Fact, event="uncaught-exception"):
    """An exception ended the script."""

    type: str = ""
    message: str = ""


class CreatedBefore(Fact, event="created-before"):
    """Something that an earlier attempt created counts as created by this one."""

    kind: str = ""
    path: str = ""
    site: str = ""


class AppendedAgain(Fact, event="appended-again"):
    """The script appends again to a file that an earlier attempt appended to."""

    path: str = ""
    site: str = ""


class StoppedAt(Fact, event="stopped-at"):
    """The line at which the script exited, recorded only if this was not the script's first start."""

    type: str = ""
    message: str = ""
    site: str = ""
    source: str = ""
    refuses: bool = False
    created: str = ""


class Preempted(AtStep, event="preempted"):
    """A signal asked the process to stop, and it exits right after this event."""

    signal: str = ""
    steps: int = 0
    saved: int = 0


class Interrupted(AtStep, event="interrupted"):
    """A KeyboardInterrupt ended a fit, but the script may continue."""

    steps: int = 0
    saved: int = 0


class ContextLost(Fact, event="context-lost"):
    """The GPU context is lost, so nothing more can be saved from this process."""

    fault: str = ""
    reason: str = ""


class GaveUp(Fact, event="gave-up"):
    """The script's process cannot continue, and neither could a new one."""

    fault: str = ""
    reason: str = ""
    why: ReasonData | None = None


class RestartRequested(Fact, event="restart-requested"):
    """The script's process cannot continue, and exits right after this event."""

    fault: str = ""
    reason: str = ""
    micro_batch: int | None = None


# -- from the script: training ----------------------------------------------------------------------------------------


class FitStarted(Fact, event="fit-started"):
    """A fit, or a loop over `oomph.steps`, has started."""

    fit: int | None = None
    key: str | None = None
    site: str = ""
    guard: str = ""
    reason: str = ""
    coupling: str = ""
    fingerprint: str = ""
    epochs: int | None = None
    first_epoch: int | None = None
    xla: bool | None = None
    precision: str = ""
    held_bytes: int | None = None
    loops: Loops | None = None


class FitFinished(Fact, event="fit-finished"):
    """A fit, or a loop over `oomph.steps`, has finished."""

    fit: int | None = None
    key: str | None = None
    steps: int = 0
    reached: int | None = None
    over: bool = False
    too_dear: bool = False
    micro_batch: int | None = None
    guard: str = ""
    seconds: float = 0.0
    loss: float | None = None
    state: str | None = None
    batch_size: int | None = None
    device_peak_bytes: int | None = None
    device_limit_bytes: int | None = None
    kept_bytes: int | None = None


class DataEnded(AtStep, event="data-ended"):
    """The data ran out before the epoch had run its `wanted` steps."""

    wanted: int = 0


class ProbeFailed(AtStep, event="probe-failed"):
    """A probe of micro-batches ran out of memory at `samples`, either within a step that recovers or a step later."""

    during: str | None = None
    samples: int = 0
    seconds: float = 0.0
    message: str = ""
    requested_bytes: int | None = None


class Oom(AtStep, event="oom"):
    """A step, or a call to `oomph.map_batches`, ran out of memory."""

    phase: str = ""
    message: str = ""
    requested_bytes: int | None = None
    seconds: float = 0.0
    batch: int | None = None
    micro_batch: int | None = None
    first: int | None = None
    piece: int | None = None
    during: str | None = None
    site: str | None = None


class Recovered(AtStep, event="recovered"):
    """A batch that had run out of memory was processed in parts."""

    batch: int | None = None
    micro_batch: int | None = None
    piece: int | None = None
    ooms: int = 0
    seconds: float = 0.0
    guard: str | None = None
    during: str | None = None


class MicroBatchesProbed(AtStep, event="probed"):
    """Micro-batches were compared with the undivided batch before they were used."""

    kind: str = ""
    reason: str = ""
    coupling: str = ""
    samples: int = 0
    gradients: float | None = None
    state: float | None = None
    worst: str | None = None
    tolerance: float | None = None
    during: str | None = None


class StepsVerified(AtStep, event="verified"):
    """The guard's steps were compared with those of plain Keras."""

    steps: int = 0
    weights: float = 0.0
    logs: float = 0.0
    of_change: float = 0.0
    variable: str = ""
    type: str = ""
    of_log: float = 0.0
    rounding: float = 0.0
    stopped: str = ""


class GradientsDiffer(AtStep, event="inconsistent"):
    """Two computations of the same gradients differ, which indicates silent data corruption on the device."""

    device: str = ""
    variable: str = ""
    difference: float = 0.0
    third: str = ""


class StepsRechecked(AtStep, event="rechecked"):
    """The gradients of some steps were computed twice."""

    steps: int = 0
    seconds: float = 0.0
    reason: str = ""


class BatchSkipped(AtStep, event="batch-skipped"):
    """A batch whose step failed twice was left out, as `--skip-poison` allows."""


class RecordsLeftOut(Fact, event="records-left-out"):
    """Corrupt records in the data were left out, as `--skip-corrupt` allows."""

    records: Sequence[str] = ()
    complete: bool = False


class LoopSeen(Fact, event="loop-seen"):
    """A custom loop trains. It is `guarded` if its step is under `oomph.guard`."""

    site: str = ""
    loops: Loops = ()
    restored: int = 0
    guarded: bool = False


class TrainedOutsideFit(Fact, event="trained-outside-fit"):
    """The script took its first step outside any fit or loop."""

    site: str = ""


class UnguardedTraining(Fact, event="unguarded"):
    """The script trains in a way that oomph only supervises."""

    kind: str = ""
    site: str = ""


class RehearsedFault(Fact, event="injected"):
    """A rehearsal is injecting its fault."""

    fault: str = ""


class RehearsalEnded(Fact, event="rehearsal-ended"):
    """A rehearsal is complete. Contains a digest of the weights, and the loss."""

    state: str | None = None
    loss: float | None = None


# -- from the script: checkpoints and resumes -------------------------------------------------------------------------


class CheckpointSaved(AtStep, event="checkpoint"):
    """A checkpoint is complete. Training waited `seconds` for it."""

    name: str = ""
    steps: int = 0
    bytes: int = 0
    seconds: float = 0.0
    background_seconds: float = 0.0
    iterator: str = ""
    why: ReasonData | None = None


class CheckpointSkipped(AtStep, event="checkpoint-skipped"):
    """A state was not saved because it was not finite."""

    reason: str = ""
    why: ReasonData | None = None
    kept: str | None = None


class CheckpointRefused(AtStep, event="checkpoint-refused"):
    """An existing checkpoint was not used, or, if the name is empty, the whole folder."""

    name: str = ""
    reason: str = ""
    why: ReasonData | None = None


class CheckpointFailed(AtStep, event="checkpoint-failed"):
    """A checkpoint could not be written."""

    reason: str = ""


class Resumed(AtStep, event="resumed"):
    """A fit or loop resumes from a checkpoint, or its result is restored."""

    name: str = ""
    key: str | None = None
    steps: int = 0
    kind: str = ""
    seconds: float = 0.0
    changes: Sequence[ReasonData] = ()
    meant: Sequence[ReasonData] = ()
    lost: Sequence[ReasonData] = ()


class ResumedItself(AtStep, event="resumed-itself"):
    """The script resumed from its own checkpoint."""

    key: str | None = None
    steps: int = 0
    reason: str = ""
    why: ReasonData | None = None


class ProfileStarted(Fact, event="profile-started"):
    """TensorFlow's profiler records the steps from here on."""

    first: int = 0


class ProfileSaved(Fact, event="profile-saved"):
    """The trace of some steps was written."""

    first: int = 0
    last: int = 0
    trace: str = ""
    bytes: int | None = None
    seconds: float | None = None
    saving_seconds: float | None = None
    cut: str = ""


class ProfileFailed(Fact, event="profile-failed"):
    """No trace was or will be written."""

    first: int = 0
    why: str = ""
    reason: str = ""


class RepeatCompared(AtStep, event="compared"):
    """Repeated steps were compared with the original ones."""

    key: str | None = None
    steps: int = 0
    epochs: int = 0
    batches: int | None = None
    covered: int | None = None
    repeated: int | None = None
    equal: bool = False
    cause: ReasonData | None = None
    noise: float | None = None


class TrainsAgain(Fact, event="trains-again"):
    """A finished fit trains again because it has changed or some of its effects are missing."""

    key: str | None = None
    fit: int | None = None
    reason: str = ""
    edited_fit: int | None = None


class AnotherWay(Fact, event="another-way"):
    """The script reached this fit by a different path than before."""

    key: str | None = None
    fit: int | None = None
    reason: str = ""
    why: ReasonData | None = None


class PassedOn(Fact, event="passed-on"):
    """A fit receives its data from a generator that an earlier fit already used."""

    key: str | None = None
    fit: int | None = None
    reason: str = ""
    why: ReasonData | None = None


class TrustedResult(Fact, event="trusted"):
    """The result of a finished fit was returned without all of its effects."""

    key: str | None = None
    reason: str = ""
    why: ReasonData | None = None


class ResumePostponed(Fact, event="resume-postponed"):
    """An intact checkpoint could not be restored for the moment, and the process exits right after this event."""

    reason: str = ""


class UnknownEvent(Fact):
    """An event from a later version of oomph."""

    name: str = ""
    fields: Mapping[str, Any] = _NOTHING
