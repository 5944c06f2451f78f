"""isolate: a function in a process of its own, so that a crash of the GPU does not take the caller with it.

What goes in is the function and its arguments, what comes out is what it returns or what became of it; both through
pipes between the two processes, nothing through files. The caller may be a notebook, a service or a script; it is not
forked, since TensorFlow and CUDA do not survive that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from oomph.errors import IsolatedError
from oomph.faults.evidence.evidence import ending, message_of
from oomph.recovery.isolation import serialisation
from oomph.recovery.isolation.isolated_process import IsolatedProcess
from oomph.recovery.posix import cgroup

if TYPE_CHECKING:
    from oomph.faults.matching.named_fault import Diagnosis

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Isolated:
    """What became of a function that ran in a process of its own."""

    ok: bool
    """Whether it returned."""
    value: Any = None
    """What it returned."""
    error: BaseException | None = None
    """What it raised, if it was Python that failed; without its frames, which have gone with the process."""
    traceback: str = ""
    """The traceback of that, as text."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """What went wrong, the likeliest cause first; empty when it returned."""
    returncode: int = 0
    """Of its process, as `subprocess` has it: −n for death by signal n."""
    timeout: float | None = None
    """The limit that it was given, in seconds."""
    timed_out: bool = False
    """Whether its time was up before the function had returned or raised."""
    left_behind: str = ""
    """What keeps its process, when that has not ended in spite of SIGKILL."""
    seconds: float = 0.0
    stderr: str = ""
    """The last mebibyte of what the process wrote there."""

    def result(self) -> Any:
        """What the function returned; raises IsolatedError, which says why there is nothing."""
        if self.ok:
            return self.value
        raise IsolatedError(self.reason, self) from self.error

    @property
    def reason(self) -> str:
        """Why there is no result, in one sentence; empty when there is one."""
        if self.ok:
            return ""
        if self.timed_out:
            stays = f", and its process cannot be ended: {self.left_behind}" if self.left_behind else ""
            return f"the function did not return within {self.timeout:g} s{stays}"
        from oomph.faults.matching.fallback import UNRELATED

        name = "".join(f" ({found.name})" for found in self.diagnoses[:1] if found.name != UNRELATED)
        if self.error is not None:
            words = message_of(self.error)
            return f"the function raised {type(self.error).__name__}{': ' * bool(words)}{words}{name}"
        return f"the process of the function {ending(self.returncode)}{name}"


def isolate(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> Isolated:
    """Call `fn(*args, **kwargs)` in a process of its own, and return its result or the diagnosis of its failure.

        outcome = oomph.isolate(train, (config,), timeout=3600)
        if not outcome.ok:
            print(outcome.reason, outcome.diagnoses)
        weights = outcome.result()

    The process is a new Python with the caller's path and environment; it has its own TensorFlow and its own context on
    the GPU, and ends with the call, together with everything that it started; only of one that crashes, what it has put
    into sessions of their own goes on. Its output goes where the caller's goes.
    Arguments and result must be picklable: arrays, weights, Keras models, plain values. A function of a notebook, or
    one defined within another, needs the package cloudpickle.

    Args:
        fn: the function.
        args: its positional arguments.
        kwargs: its named arguments.
        timeout: seconds until the process is ended; its Python stacks are then at the end of `stderr`. None: never.
        environ: environment variables on top of the caller's, such as CUDA_VISIBLE_DEVICES.

    Raises:
        UsageError: when the function or its arguments cannot be carried over.
        TypeError: when an argument is of another kind.
        ValueError: when `timeout` is not above 0 or beyond all floats, or no environment can hold what is in `environ`.
    """
    _check(fn, args, kwargs or {})
    _check_timeout(timeout)
    _check_environ(environ or {})
    call = serialisation.pack_call(fn, tuple(args), dict(kwargs or {}))
    kills_before, started = cgroup.oom_kills(), time.monotonic()
    child = IsolatedProcess(call, {**os.environ, **(environ or {})})
    try:
        child.wait(None if timeout is None else started + timeout)
    finally:
        child.end()
    kills, before = cgroup.oom_kills(), kills_before
    new_kills = None if kills is None or before is None else kills - before
    return replace(_outcome(child, time.monotonic() - started, new_kills), timeout=timeout)


def _check(fn: object, args: object, kwargs: object) -> None:
    """Say what is wrong with an argument before a process is started for it."""
    if not callable(fn):
        raise TypeError(f"isolate: fn has to be a function, and not {_shown(fn)}")
    if not isinstance(args, Iterable) or isinstance(args, str | bytes):
        raise TypeError(f"isolate: args has to be a tuple of arguments, such as (x,), and not {_shown(args)}")
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"isolate: kwargs has to be a dict of named arguments, and not {_shown(kwargs)}")


def _check_timeout(timeout: object) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"isolate: timeout has to be a number of seconds or None, and not {_shown(timeout)}")
    try:
        seconds = 1.0 if timeout is None else float(timeout)
    except OverflowError:
        raise ValueError("isolate: timeout is a number beyond all floats; None waits for ever") from None
    if not seconds > 0:
        raise ValueError(f"isolate: timeout has to be above 0 seconds, and not {seconds:g}; None waits for ever")


def _check_environ(environ: object) -> None:
    if not isinstance(environ, Mapping):
        raise TypeError(f"isolate: environ has to be a dict of text, and not {_shown(environ)}")
    for name, value in environ.items():
        _check_variable(name, value)


def _check_variable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"isolate: environ has to hold text, and has {_shown(name)}: {_shown(value)}")
    if not name or "=" in name or "\0" in name + value:
        raise ValueError(f"isolate: environ has {_shown(name)}: {_shown(value)}, which no environment can hold")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _outcome(child: IsolatedProcess, seconds: float, oom_kills: int | None) -> Isolated:
    answer = serialisation.unpack_answer(bytes(child.answer))
    stderr = child.stderr.decode(errors="replace")
    if answer is not None and answer.ok:
        return Isolated(True, answer.value, returncode=child.returncode, seconds=seconds, stderr=stderr)
    return Isolated(
        ok=False,
        error=None if answer is None else answer.error,
        traceback="" if answer is None else answer.traceback,
        diagnoses=_diagnosed(child, answer, oom_kills),
        returncode=child.returncode,
        timed_out=child.timed_out and answer is None,
        left_behind=child.left_behind,
        seconds=seconds,
        stderr=stderr,
    )


def _diagnosed(
    child: IsolatedProcess, answer: serialisation.Answer | None, oom_kills: int | None
) -> tuple[Diagnosis, ...]:
    from oomph.faults.diagnose import diagnose_log
    from oomph.faults.evidence.evidence import Evidence

    def others() -> Iterator[Evidence]:
        if answer is not None and answer.error is not None:
            yield Evidence.of_exception_text(answer.type_name, answer.message)
        if not child.timed_out:
            yield Evidence.of_exit(child.returncode, oom_kills)

    return diagnose_log(child.stderr, others())
