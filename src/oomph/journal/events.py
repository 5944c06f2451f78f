"""Defines the events of a journal, with one frozen class for each, to be used with `match`. Used in both processes.

A field that does not apply or was not measured is None, and is not written to the journal. A missing or damaged field
is set to its default. `docs.py` makes the reference from the docstrings and the comments that begin with `#:`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from oomph.journal.fact import Fact
from oomph.terminal.message import shown_line

_NOTHING: Mapping[str, Any] = MappingProxyType({})
ReasonData = Mapping[str, Any] | str
"""A reason as JSON: its code and values (`protocol/reasons.py`), or plain text."""
Loops = Sequence[tuple[str, int, int]]
"""The file, first line and last line of each training loop around a step."""


class AtStep(Fact):
    """The position in training. The fields are None outside of training."""

    fit: int | None = None
    epoch: int | None = None  #: the epoch of the fit, from 0
    step: int | None = None  #: the step of the epoch, from 0


# -- from the supervisor ----------------------------------------------------------------------------------------------


class RunStarted(Fact, event="run-started"):
    """An `oomph run` invocation has started."""

    oomph: str = ""  #: the version of oomph
    start_over: bool = False  #: `--start-over` was given
    profile: Sequence[int] | None = None  #: START and STOP of `--profile`


class MachineSeen(Fact, event="machine"):
    """The machine as `oomph doctor` sees it, and the environment variables that were set for the script."""

    snapshot: Mapping[str, Any] | None = None  #: what `oomph doctor` sees (`doctor/snapshot.py`)
    repairs: Mapping[str, Any] = _NOTHING  #: variables that were set, with their values


class AttemptStarted(Fact, event="attempt-started"):
    """The script is about to be started."""

    python: str = ""  #: the Python of the script
    command: Sequence[str] = ()  #: the words of the command line
    newest_checkpoint: int | None = None  #: the number of the newest checkpoint, or 0
    host: str = ""  #: the name of the machine
    gpus: Sequence[Mapping[str, Any]] = ()  #: what the script may use, in CUDA's order: index, UUID, name, bus address


class AttemptEnded(Fact, event="attempt-ended"):
    """The script's process has exited. The return code is null if the supervisor was killed too, and never saw it."""

    returncode: int | None = 0  #: the exit code, or −n for signal n, as in `subprocess`
    seconds: float = 0.0  #: how long the attempt took
    steps: int = 0  #: the steps that the run had done by then
    saved: int = 0  #: those of them that a checkpoint holds
    oom_kills: int | None = None  #: new OOM kills that the cgroup counts
    peak_rss_bytes: int | None = None  #: the most host memory that was in use
    device_peak_bytes: int | None = None  #: the most device memory, over all fits, also one that did not finish
    input_wait: float | None = None  #: the share of the step time that went to waiting for batches


class Diagnosed(Fact, event="diagnosed"):
    """The fault that ended an attempt, and other faults for which there is evidence."""

    fault: str = ""  #: the name of the fault
    code: str = ""  #: the code of its page
    also: Sequence[Mapping[str, str]] = ()  #: other faults that the end shows: `fault`, `code`


class Decided(Fact, event="decided"):
    """The action taken after an attempt, with all the facts that the decision is based on."""

    action: str = ""  #: "finish", "restart", "give-up" or "requeue"
    reason: str = ""
    exit_code: int | None = None  #: the exit code of oomph, if it ends
    change: Mapping[str, str] | None = None  #: what the next attempt changes: `name` of the rung, `value`
    rung: int | None = None  #: the rung of the fault's ladder
    ending: Mapping[str, Any] | None = None  #: input: how the attempt ended
    conditions: Mapping[str, Any] = _NOTHING  #: input: what can be changed here
    allowed: Sequence[str] = ()  #: input: the options that allow a change of the mathematics
    ledger: Mapping[str, Any] | None = None  #: input: earlier restarts


class WorkerFailed(Fact, event="worker-failed"):
    """One of several workers failed on its own. The `cause` is the failure from which the others follow."""

    worker: int = 0  #: its rank
    returncode: int = 0  #: as in `subprocess`: −n for signal n
    fault: str = ""  #: the name of the fault
    cause: bool = False  #: the others follow from it
    host: str = ""  #: the name of its machine, if each worker has a supervisor of its own

    @property
    def who(self) -> str:
        """The worker, and its machine if that is known, for a sentence."""
        return f"worker {self.worker}" + (f" on {shown_line(self.host)}" if self.host else "")


class WorkersPlaced(Fact, event="workers-placed"):
    """An engine such as Ray has given each of the workers a place."""

    hosts: Sequence[str] = ()  #: the address of each worker's machine, by rank


class Hung(Fact, event="hang"):
    """The script made no progress for longer than its phase allows. The worker is None if there is only one."""

    worker: int | None = None  #: its rank, if there are several
    phase: str = ""  #: the phase in which it was silent
    fit: int | None = None  #: its number, if it was in one
    seconds: float | None = None  #: how long it made no progress
    limit_seconds: float | None = None  #: how long the phase may be silent
    line: str = ""  #: the line that blocks it
    stacks: str = ""  #: the stacks of all threads


class KernelLogRead(Fact, event="kernel-log"):
    """Lines of the kernel log about the script and its GPUs."""

    lines: Sequence[str] = ()  #: the lines, as the kernel wrote them


class GpuMemoryHeld(Fact, event="gpu-memory-held"):
    """GPU memory is still in use although the script has exited."""


class GpuMemoryBack(Fact, event="gpu-memory-back"):
    """The GPU's memory is free again."""

    seconds: float = 0.0  #: how long it took


class Unkillable(Fact, event="unkillable"):
    """A process survived SIGKILL."""

    reason: str = ""  #: what blocks the process


class FindingMade(Fact, event="finding"):
    """A finding from the monitor, or from the script's own process about its data."""

    fault: str = ""  #: the name of the fault
    code: str = ""  #: the code of its page
    subject: str = ""  #: what it is about, such as "GPU 0"
    kind: str = ""  #: tells apart findings with the same fault and subject
    message: str = ""  #: what was found, in words
    severity: str = "warning"  #: "notice", "warning" or "critical"
    remedy: str = ""  #: what to do
    figures: Mapping[str, Any] = _NOTHING  #: the measured values
    again: bool = False  #: it has come back within ten minutes, and was not told again


class FindingOver(Fact, event="finding-ended"):
    """A finding has ended."""

    fault: str = ""  #: as in `finding`
    subject: str = ""  #: as in `finding`
    kind: str = ""  #: as in `finding`
    until: float | None = None  #: when it was there last, in Unix time
    seconds: float = 0.0  #: how long it was there by then


class RunEnded(Fact, event="run-ended"):
    """An `oomph run` invocation is about to exit."""

    exit_code: int | None = None  #: the exit code of oomph


# -- from the script: the process -------------------------------------------------------------------------------------


class ProcessStarted(Fact, event="process-started"):
    """A Python process of the script has loaded oomph."""

    pid: int | None = None  #: the process id
    python: str = ""  #: the path of Python
    version: str = ""  #: the version of Python
    argv: Sequence[str] = ()  #: `sys.argv`


class CellStarted(Fact, event="cell-started"):
    """A cell of a notebook starts to run."""

    cell: int | None = None  #: the number of the cell
    line: str = ""  #: the first line of its text


class VariablesRead(Fact, event="environment-read"):
    """The names of the environment variables that training depends on and that are set."""

    variables: Sequence[str] = ()  #: their names, without values


class GuardInstalled(Fact, event="guard-installed"):
    """Keras is now guarded."""

    keras: str = ""  #: the version of Keras
    tensorflow: str = ""  #: the version of TensorFlow


class GuardFailed(AtStep, event="guard-failed"):
    """A part of oomph failed, and training continues without it."""

    reason: str = ""


class FeatureOff(Fact, event="feature-off"):
    """A feature is turned off because a private name in Keras or TensorFlow is missing."""

    name: str = ""  #: the private name
    feature: str = ""  #: what needs it


class NoWitnesses(AtStep, event="no-witnesses"):
    """The witnesses with which a resume would be compared could not be created."""

    reason: str = ""


class UncaughtException(Fact, event="uncaught-exception"):
    """An exception ended the script."""

    type: str = ""  #: the type of the exception
    message: str = ""  #: its message


class CreatedBefore(Fact, event="created-before"):
    """Something that an earlier attempt created counts as created by this one."""

    kind: str = ""  #: "directory", "file" or "link"
    path: str = ""  #: the path that the script creates
    site: str = ""


class AppendedAgain(Fact, event="appended-again"):
    """The script appends again to a file that an earlier attempt appended to."""

    path: str = ""  #: the path of the file
    site: str = ""


class StoppedAt(Fact, event="stopped-at"):
    """The line at which the script exited, recorded only if this was not the script's first start."""

    type: str = ""  #: the type of the exception
    message: str = ""  #: its message
    site: str = ""
    source: str = ""  #: the text of the line
    refuses: bool = False  #: the line ends the script because something exists
    created: str = ""  #: when that was created: "now" or "before"


class Preempted(AtStep, event="preempted"):
    """A signal asked the process to stop, and it exits right after this event."""

    signal: str = ""  #: the name of the signal
    steps: int = 0  #: the steps that the run had done
    saved: int = 0  #: those of them that a checkpoint holds


class Interrupted(AtStep, event="interrupted"):
    """A KeyboardInterrupt ended a fit, but the script may continue."""

    steps: int = 0  #: the steps that the run had done
    saved: int = 0  #: those of them that a checkpoint holds


class ContextLost(Fact, event="context-lost"):
    """The GPU context is lost, so nothing more can be saved from this process."""

    fault: str = ""  #: the name of the fault
    reason: str = ""


class GaveUp(Fact, event="gave-up"):
    """The script's process cannot continue, and neither could a new one."""

    fault: str = ""  #: the name of the fault
    reason: str = ""
    why: ReasonData | None = None


class RestartRequested(Fact, event="restart-requested"):
    """The script's process cannot continue, and exits right after this event."""

    fault: str = ""  #: the name of the fault
    reason: str = ""
    micro_batch: int | None = None  #: the size that the next process begins with


# -- from the script: training ----------------------------------------------------------------------------------------


class FitStarted(Fact, event="fit-started"):
    """A fit, or a loop over `oomph.steps`, has started."""

    fit: int | None = None
    key: str | None = None
    site: str = ""
    guard: str = ""  #: "exact", "approximate", "probed before a batch is divided", "restart only", "loop", "off"
    reason: str = ""
    coupling: str = ""  #: what in a batch depends on other samples
    fingerprint: str = ""  #: a digest of the model
    epochs: int | None = None  #: the epochs that are asked for
    first_epoch: int | None = None  #: the epoch that it begins with, from 0
    xla: bool | None = None  #: the step is compiled by XLA
    precision: str = ""  #: the least precise type that a layer computes in
    held_bytes: int | None = None  #: what a step holds back until it commits; 0 for lack of memory
    loops: Loops | None = None  #: as in `loop-seen`, if it is a loop


class FitFinished(Fact, event="fit-finished"):
    """A fit, or a loop over `oomph.steps`, has finished."""

    fit: int | None = None
    key: str | None = None
    steps: int = 0  #: the steps of the fit
    reached: int | None = None  #: the steps of the run by then
    over: bool = False  #: its checkpoint held all epochs: nothing was trained
    too_dear: bool = False  #: its end state was not saved because of its cost
    micro_batch: int | None = None  #: the samples of a micro-batch, if a batch was split
    guard: str = ""  #: as in `fit-started`
    seconds: float = 0.0  #: how long the fit took
    loss: float | None = None  #: the last loss
    state: str | None = None  #: a digest of the weights and the optimizer
    batch_size: int | None = None  #: the samples of a batch
    device_peak_bytes: int | None = None  #: the most device memory that was in use
    device_limit_bytes: int | None = None  #: what TensorFlow may use of the device
    kept_bytes: int | None = None  #: the size of weights, slots and other variables


class DataEnded(AtStep, event="data-ended"):
    """The data ran out before the epoch had run its `wanted` steps."""

    wanted: int = 0  #: the steps that an epoch should have


class ProbeFailed(AtStep, event="probe-failed"):
    """A probe of micro-batches ran out of memory at `samples`, either within a step that recovers or a step later."""

    during: str | None = None  #: outside of fit: "evaluate", "predict" or the name of a function
    samples: int = 0  #: the samples that were tried at once
    seconds: float = 0.0  #: how long it took
    message: str = ""  #: the message of TensorFlow
    requested_bytes: int | None = None  #: what the allocator refused


class Oom(AtStep, event="oom"):
    """A step, or a call to `oomph.map_batches`, ran out of memory."""

    phase: str = ""  #: "compute", "commit", "input", "unguarded", "elsewhere" or "map_batches"
    message: str = ""  #: the message of TensorFlow
    requested_bytes: int | None = None  #: what the allocator refused
    seconds: float = 0.0  #: how long the failure took
    batch: int | None = None  #: the samples of the batch
    micro_batch: int | None = None  #: the samples of the micro-batch that failed
    first: int | None = None  #: of `oomph.map_batches`: the first element of the call
    piece: int | None = None  #: of `oomph.map_batches`: the elements of the call
    during: str | None = None  #: outside of fit: "evaluate", "predict" or the name of a function
    site: str | None = None


class Recovered(AtStep, event="recovered"):
    """A batch that had run out of memory was processed in parts."""

    batch: int | None = None  #: the samples of the batch
    micro_batch: int | None = None  #: the samples of a micro-batch
    piece: int | None = None  #: of `oomph.map_batches`: the most elements of a call
    ooms: int = 0  #: the number of errors
    seconds: float = 0.0  #: how long it took
    guard: str | None = None  #: the promise of the fit by then
    during: str | None = None  #: outside of fit: "evaluate", "predict" or the name of a function


class MicroBatchesProbed(AtStep, event="probed"):
    """Micro-batches were compared with the undivided batch before they were used."""

    kind: str = ""  #: "exact", "approximate" or "refused"
    reason: str = ""
    coupling: str = ""  #: what in a batch depends on other samples
    samples: int = 0  #: the samples that were computed
    gradients: float | None = None  #: the relative difference of the gradients
    state: float | None = None  #: the relative difference of the changed state
    worst: str | None = None  #: the variable that differs most
    tolerance: float | None = None  #: the difference that counts as rounding
    during: str | None = None  #: outside of fit: "evaluate", "predict" or the name of a function


class StepsVerified(AtStep, event="verified"):
    """The guard's steps were compared with those of plain Keras."""

    steps: int = 0  #: the steps that were compared
    weights: float = 0.0  #: the largest difference of a weight
    logs: float = 0.0  #: the largest difference of a returned value
    of_change: float = 0.0  #: that of `variable`, relative to what the step changed in it
    variable: str = ""  #: the variable that differs most
    type: str = ""  #: the type of that variable
    of_log: float = 0.0  #: that of a returned value, relative to it
    rounding: float = 0.0  #: what counts as rounding in `type`
    stopped: str = ""  #: why the comparison ended early


class GradientsDiffer(AtStep, event="inconsistent"):
    """Two computations of the same gradients differ, which indicates silent data corruption on the device."""

    device: str = ""  #: the device that computed them
    variable: str = ""  #: the variable whose gradient differs most
    difference: float = 0.0  #: the norm of the difference, relative to the gradient's
    third: str = ""  #: what a third computation agrees with


class StepsRechecked(AtStep, event="rechecked"):
    """The gradients of some steps were computed twice."""

    steps: int = 0  #: the steps that were compared
    seconds: float = 0.0  #: how long it took
    reason: str = ""  #: why none could be compared


class BatchSkipped(AtStep, event="batch-skipped"):
    """A batch whose step failed twice was left out, as `--skip-poison` allows."""


class RecordsLeftOut(Fact, event="records-left-out"):
    """Corrupt records in the data were left out, as `--skip-corrupt` allows."""

    records: Sequence[str] = ()  #: each record, in words
    complete: bool = False  #: the list has all of them


class LoopSeen(Fact, event="loop-seen"):
    """A custom loop trains. It is `guarded` if its step is under `oomph.guard`."""

    site: str = ""
    loops: Loops = ()  #: the file, first line and last line of each loop there
    restored: int = 0  #: the steps that the script itself had restored, by its optimizer's count
    guarded: bool = False  #: its step is under `oomph.guard`


class TrainedOutsideFit(Fact, event="trained-outside-fit"):
    """The script took its first step outside any fit or loop, or in a fit that is not checkpointed."""

    site: str = ""
    kind: str = ""  #: the Keras that trains, if its fits are not checkpointed either: "keras-2"


class UnguardedTraining(Fact, event="unguarded"):
    """The script trains in a way that oomph only supervises."""

    kind: str = ""  #: what trains (`protocol/replacements.py`)
    site: str = ""


class RehearsedFault(Fact, event="injected"):
    """A rehearsal is injecting its fault."""

    fault: str = ""  #: the name of the fault


class RehearsalEnded(Fact, event="rehearsal-ended"):
    """A rehearsal is complete. Contains a digest of the weights, and the loss."""

    state: str | None = None  #: a digest of the weights
    loss: float | None = None  #: the last loss


# -- from the script: checkpoints and resumes -------------------------------------------------------------------------


class CheckpointSaved(AtStep, event="checkpoint"):
    """A checkpoint is complete. Training waited `seconds` for it."""

    name: str = ""  #: the name of its folder
    steps: int = 0  #: the steps of the run by then
    bytes: int = 0  #: its size
    seconds: float = 0.0  #: how long training waited
    background_seconds: float = 0.0  #: how long a thread wrote
    iterator: str = ""  #: "saved", or why not
    why: ReasonData | None = None  #: why the position in the data is not saved: a [reason](run-directory.md#reasons)


class CheckpointSkipped(AtStep, event="checkpoint-skipped"):
    """A state was not saved because it was not finite."""

    reason: str = ""
    why: ReasonData | None = None
    kept: str | None = None  #: what is there instead, in words


class CheckpointRefused(AtStep, event="checkpoint-refused"):
    """An existing checkpoint was not used, or, if the name is empty, the whole folder."""

    name: str = ""  #: the name of its folder
    reason: str = ""
    why: ReasonData | None = None


class CheckpointFailed(AtStep, event="checkpoint-failed"):
    """A checkpoint could not be written."""

    reason: str = ""


class Resumed(AtStep, event="resumed"):
    """A fit or loop resumes from a checkpoint, or its result is restored."""

    name: str = ""  #: the name of the checkpoint
    key: str | None = None
    steps: int = 0  #: the steps of the run by then
    kind: str = ""  #: "exact", "replayed", "epoch", "finished" or "over": no epoch is left
    seconds: float = 0.0  #: how long it took
    changes: Sequence[ReasonData] = ()  #: what changed since the checkpoint: [reasons](run-directory.md#reasons)
    meant: Sequence[ReasonData] = ()  #: those of them that change the training
    lost: Sequence[ReasonData] = ()  #: what is not restored: [reasons](run-directory.md#reasons)


class ResumedItself(AtStep, event="resumed-itself"):
    """The script resumed from its own checkpoint."""

    key: str | None = None
    steps: int = 0  #: the steps of the run before it
    reason: str = ""
    why: ReasonData | None = None


class ProfileStarted(Fact, event="profile-started"):
    """TensorFlow's profiler records the steps from here on."""

    first: int = 0  #: the first step, counted from 1 over the run


class ProfileSaved(Fact, event="profile-saved"):
    """The trace of some steps was written."""

    first: int = 0  #: the first step, counted from 1 over the run
    last: int = 0  #: the last step
    trace: str = ""  #: its name in the run directory
    bytes: int | None = None  #: the size of the trace
    seconds: float | None = None  #: how long the steps took
    saving_seconds: float | None = None  #: how long training waited for the file
    cut: str = ""  #: why steps are missing: "ended", "interrupted" or "other-profiler"


class ProfileFailed(Fact, event="profile-failed"):
    """No trace was or will be written."""

    first: int = 0  #: the first step that could not be recorded
    why: str = ""  #: "other-profiler", "failed", or as `cut` in `profile-saved`
    reason: str = ""


class RepeatCompared(AtStep, event="compared"):
    """Repeated steps were compared with the original ones."""

    key: str | None = None
    steps: int = 0  #: the steps that match the earlier ones
    epochs: int = 0  #: the epochs that match
    batches: int | None = None  #: the batches that were read again and match
    covered: int | None = None  #: the repeated steps that this comparison covers
    repeated: int | None = None  #: the repeated steps
    equal: bool = False  #: no difference was found
    cause: ReasonData | None = None  #: the cause of the first difference: a [reason](run-directory.md#reasons)
    noise: float | None = None  #: the difference that was accepted


class TrainsAgain(Fact, event="trains-again"):
    """A finished fit trains again because it has changed or some of its effects are missing."""

    key: str | None = None
    fit: int | None = None
    reason: str = ""
    edited_fit: int | None = None  #: its number before an edit


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
