"""The end of an attempt, where signals, hangs and exit codes could be mistaken for one another."""

from __future__ import annotations

import signal
from pathlib import Path

from oomph.journal.journal import Event
from oomph.protocol.progress import Progress
from oomph.run.policy.decide import Ending, Finish, Ledger, Requeue, Restart, decide, record
from oomph.run.policy.examination import Trail, examine
from oomph.run.policy.ladder import Change
from oomph.run.report.account import restart_line

POOL = (Path(__file__).parents[2] / "logs/crash/cpu_pool.log").read_text()
"""6.12 MiB were requested; 6.74 MiB are free, in two pieces."""
SAVED_AND_LEFT = Event.named("preempted", {"signal": "SIGTERM"})


def test_hang_stopped_by_our_own_sigterm_is_not_a_preemption() -> None:
    """The script then reaches the next step boundary, saves, and exits with 75."""
    trail = Trail(75, None, b"", stopped=False, events=[SAVED_AND_LEFT], progress=None, hung=True)
    names, ending = examine(trail, blind=True)
    assert (names[0].name, ending.preempted) == ("hang", "")
    assert isinstance(decide(ending, Ledger()), Restart)


def test_scheduler_signal_takes_precedence_while_a_hang_is_being_stopped() -> None:
    trail = Trail(75, None, b"", stopped=True, events=[SAVED_AND_LEFT], progress=None, hung=True, asked="SIGTERM")
    assert isinstance(decide(examine(trail, blind=True)[1], Ledger()), Requeue)


def test_signal_sent_only_to_the_script_is_a_preemption() -> None:
    trail = Trail(75, None, b"", stopped=False, events=[SAVED_AND_LEFT], progress=None)
    assert examine(trail, blind=True)[1].preempted == "SIGTERM"


def test_preempted_script_that_saved_and_exited_is_faultless_whatever_it_logged() -> None:
    said = (
        b"W0000 00:00:1795941747.628375   24629 local_rendezvous.cc:412] Local rendezvous is aborting with status: "
        b"INVALID_ARGUMENT: Incompatible shapes: [8] vs. [9]\n"
        b"E0000 00:00:1795941748.628375   24629 foo.cc:1] something failed\n"
    )
    names, ending = examine(Trail(75, None, said, stopped=False, events=[SAVED_AND_LEFT], progress=None))
    assert (names, ending.preempted) == ((), "SIGTERM")
    names, ending = examine(Trail(75, None, said, stopped=False, events=[], progress=None))
    assert names


def test_kill_is_a_preemption_only_after_a_scheduler_signal() -> None:
    killed = Trail(
        -signal.SIGKILL, 0, b"", stopped=True, events=[Event.named("fit-started", {})], progress=None, asked="SIGUSR1"
    )
    assert examine(killed)[1].preempted == "SIGUSR1"
    plain = Trail(-signal.SIGKILL, 0, b"", stopped=False, events=[Event.named("fit-started", {})], progress=None)
    names, ending = examine(plain)
    assert (names[0].name, ending.preempted) == ("killed", "")


def test_crash_between_epochs_does_not_skip_a_batch() -> None:
    """A callback crashes the process twice, so no batch is at fault."""
    for is_over, place in ((True, "the end of epoch 2 of fit 1"), (False, "fit 1, epoch 2, step 11")):
        at = Progress(epoch=1, step=10, steps=20, fit=0, is_epoch_over=is_over)
        trail = Trail(-6, 0, b"", stopped=False, events=[Event.named("fit-started", {})], progress=at)
        _, ending = examine(trail)
        again = decide(ending, record(ending, decide(ending, Ledger()), Ledger()), allowed=["skip-batch"])
        assert isinstance(again, Restart)
        assert (again.change is None) is is_over
        assert f"at {place}" in restart_line(ending, at, 2)


def test_restart_line_of_a_custom_loop_leaves_open_what_the_script_restores() -> None:
    line = restart_line(Ending(-9, "killed", worker=1), Progress(1, -1, 0, 0, 19, 0), 2)
    assert line == (
        "worker 1 was killed by SIGKILL in a training loop (19 steps done, 0 saved); starting attempt 2 from the"
        " beginning, unless the script restores a checkpoint of its own"
    )


def test_restart_line_states_the_smaller_micro_batch_size() -> None:
    asked = Event.named("restart-requested", {"fault": "device-oom", "reason": "out of memory", "micro_batch": 4})
    at = Progress(epoch=1, step=10, steps=20, saved=20, fit=0)
    _, ending = examine(Trail(1, None, b"", stopped=False, events=[asked], progress=at))
    assert restart_line(ending, at, 2).endswith("attempt 2 from the last checkpoint, with micro-batches of 4 at first")
    smaller = Change("micro-batch", "2")
    assert restart_line(ending, at, 2, smaller).endswith("from the last checkpoint, micro-batches of at most 2")


def test_caught_compiler_error_is_not_blamed_for_the_scripts_exit() -> None:
    """TensorFlow logged the error; the script's own mistake comes later."""
    detected = "Detected unsupported operations when trying to compile graph __inference_f_8[] on XLA_GPU_JIT: AsString"
    log = f"2026-11-28 11:58:00 W tensorflow/core/framework/op_kernel.cc:1882] INVALID_ARGUMENT: {detected}\n".encode()
    for type_name, message in (("InvalidArgumentError", detected), ("ValueError", "my own mistake")):
        uncaught = Event.named("uncaught-exception", {"type": type_name, "message": message})
        trail = Trail(
            1, 0, log, stopped=False, events=[Event.named("fit-started", {"xla": True}), uncaught], progress=None
        )
        assert examine(trail)[1].not_compiled is (message is detected)


def test_fragmentation_is_recognised_when_the_guard_gave_up() -> None:
    log = POOL.replace("bfc_cpu_allocator_for_gpu", "GPU_0_bfc").replace("device:CPU", "device:GPU")
    error = Event.named(
        "uncaught-exception", {"type": "ResourceExhaustedError", "message": log[log.index("OOM when") :]}
    )
    gave_up = Event.named("gave-up", {"fault": "device-oom", "reason": "one sample does not fit"})
    for events, found in (([gave_up, error], "device-oom-fragmentation"), ([gave_up], "device-oom")):
        _, ending = examine(Trail(1, 0, log.encode(), stopped=False, events=events, progress=None))
        assert (ending.fault, ending.in_pieces) == (found, found != "device-oom")


def test_signal_is_a_preemption_only_once_training_has_started() -> None:
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        name = signal.Signals(signum).name
        again = Trail(-signum, 0, b"", stopped=True, events=[], progress=None, asked=name, went_further=True)
        assert decide(examine(again)[1], Ledger()) == Requeue(f"preempted by {name}")
    warned = Trail(-signal.SIGUSR1, 0, b"", stopped=False, events=[], progress=None, went_further=True)
    assert decide(examine(warned)[1], Ledger()) == Requeue("preempted by SIGUSR1")
    first = Trail(-signal.SIGTERM, 0, b"", stopped=True, events=[], progress=None, asked="SIGTERM")
    assert decide(examine(first)[1], Ledger()) == Finish(143)
