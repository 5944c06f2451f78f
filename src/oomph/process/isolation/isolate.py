"""Runs a function in its own process, so that a GPU crash does not take the caller down with it.

The function, its arguments and its result travel between the two processes through pipes, never through files. The
caller may be a notebook, a service or a script. It is not forked, because TensorFlow and CUDA do not survive a fork.
"""

from __future__ import annotations

import json
import os
import reprlib
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oomph
from oomph.errors import IsolatedError
from oomph.explain.evidence.evidence import message_of
from oomph.process import available_memory
from oomph.process.child import Child
from oomph.process.isolation import isolated_call
from oomph.process.isolation.descendants import kill, strays
from oomph.process.process_group import why_it_stays
from oomph.process.stderr import Tail
from oomph.terminal.endings import ProcessEnd

if TYPE_CHECKING:
    import psutil

    from oomph.explain.matching.named_fault import Diagnosis

_CHILD = (
    "import sys; sys.path[:] = filter(None, sys.path); import json; sys.path[:] = json.loads(sys.argv[1]); "
    "from oomph.process.isolation.isolated_call import main; main()"
)
_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_STACK_SECONDS = 0.5
_GRACE_SECONDS = 5.0
_KILLED_SECONDS = 10.0
_MOST_LAST_CHUNKS = 64
"""The maximum number of chunks to read as the last output. A pipe holds less, but a process in another session may keep
writing."""
_LONGEST_SHOWN = 60
_SMALL = reprlib.Repr()
_SMALL.maxstring = _SMALL.maxother = 200


class IsolatedProcess:
    """The process and its three streams, served by a single loop without threads."""

    def __init__(self, call: bytes, environ: Mapping[str, str]) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        self._tail, self.answer, self.timed_out = Tail(None), bytearray(), False
        self._is_late = False
        """True once the time is up, after which answers are ignored."""
        path = [str(Path(oomph.__file__).parents[1]), *sys.path]
        try:
            self._child = Child(
                [sys.executable, "-c", _CHILD, json.dumps(path), str(theirs_in), str(theirs_out), str(os.getpid())],
                environ,
                stdout=None,
                stderr=theirs_err,
                inherited=(theirs_in, theirs_out),
                reap_seconds=_KILLED_SECONDS,
            )
        except BaseException:
            _close(ours_in, ours_out, ours_err)
            raise
        finally:
            _close(theirs_in, theirs_out, theirs_err)
        self._selector = selectors.DefaultSelector()
        self._watch(ours_in, selectors.EVENT_WRITE, self._feed)
        self._watch(ours_out, selectors.EVENT_READ, self._hear)
        self._watch(ours_err, selectors.EVENT_READ, self._pass_on)
        self._left = memoryview(call)
        self.returncode, self.left_behind = 0, ""

    def wait(self, until: float | None) -> None:
        """Wait until the process has exited or its time is up."""
        while self._child.returncode is None:
            self._attend(_POLL_SECONDS)
            if until is not None and time.monotonic() >= until:
                self.timed_out = True
                self._child.send(signal.SIGUSR1)  # it writes its stacks; see `isolated_call`
                self._attend_for(_STACK_SECONDS)
                self._is_late = True
                return

    def end(self) -> None:
        """End everything (SIGTERM, a grace period, SIGKILL to the group and its strays), then read the last output."""
        left: list[psutil.Process] = []
        if self._child.returncode is None:
            left = strays(self._child.pid)  # only while it is alive: afterwards their origin is unknown
            self._child.send(signal.SIGTERM)
            self._attend_for(_GRACE_SECONDS)
        if self._child.returncode is None:
            left += strays(self._child.pid)
        self._child.end()
        kill(left)
        self.returncode = self._child.returncode or 0
        self.left_behind = why_it_stays(self._child.pid) if self._child.left_behind else ""
        for _ in range(_MOST_LAST_CHUNKS):
            if not self._attend(0):
                break
        for key in list(self._selector.get_map().values()):
            self._close(key.fd)
        self._selector.close()

    @property
    def stderr(self) -> bytes:
        """The last part of the process's stderr."""
        return self._tail.data

    def _attend_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._child.returncode is None and time.monotonic() < until:
            self._attend(_POLL_SECONDS)

    def _attend(self, seconds: float) -> bool:
        """Serve the streams that are ready. Return True if there were any."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data(key.fd)
        return bool(ready)

    def _watch(self, fd: int, events: int, carry: Callable[[int], None]) -> None:
        os.set_blocking(fd, False)
        self._selector.register(fd, events, carry)

    def _feed(self, fd: int) -> None:
        try:
            self._left = self._left[os.write(fd, self._left[:_CHUNK]) :]
        except OSError:
            self._left = self._left[:0]  # it exited without reading everything
        if not self._left:
            self._close(fd)

    def _hear(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        if not self._is_late:
            self.answer += data
        if not data:
            self._close(fd)

    def _pass_on(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
        self._tail.feed(data)
        if not data:
            self._close(fd)
            return
        try:
            os.write(2, data)
        except OSError:
            pass  # the caller has no stderr

    def _close(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


@dataclass(frozen=True)
class Isolated:
    """The outcome of a function that ran in its own process.

    Its repr is short: `ok`, the shortened value or reason, and the seconds. The attributes contain everything.
    """

    ok: bool
    """True if the function returned."""
    value: Any = None
    """The value that the function returned."""
    error: BaseException | None = None
    """The exception that the function raised, if any, without its frames, which are lost with the process."""
    traceback: str = ""
    """The traceback of `error`, as text."""
    diagnoses: tuple[Diagnosis, ...] = ()
    """The diagnoses of the failure, most likely cause first. There are none if the function returned."""
    returncode: int = 0
    """The exit code of the process, as in `subprocess`: −n for death by signal n."""
    timeout: float | None = None
    """The time limit, in seconds."""
    timed_out: bool = False
    """True if the time limit passed before the function returned or raised."""
    left_behind: str = ""
    """The reason why the process has not exited despite SIGKILL, or an empty string if it has."""
    seconds: float = 0.0
    stderr: str = ""
    """The last MiB of the process's stderr."""

    def __repr__(self) -> str:
        what = f"value={_small(self.value)}" if self.ok else f"reason={_small(self.reason)}"
        return f"Isolated(ok={self.ok}, {what}, seconds={self.seconds:.1f})"

    def __str__(self) -> str:
        how = f"the function returned {_small(self.value)}" if self.ok else self.reason
        return f"{how} ({self.seconds:.1f} s)"

    def result(self) -> Any:
        """Return the function's result. Raises IsolatedError with the reason if there is none."""
        if self.ok:
            return self.value
        raise IsolatedError(self.reason, self) from self.error

    @property
    def reason(self) -> str:
        """The reason why there is no result, in one sentence, or an empty string if there is one."""
        if self.ok:
            return ""
        if self.timed_out:
            stays = f", and its process cannot be killed: {self.left_behind}" if self.left_behind else ""
            return f"the function did not return within {self.timeout:g} s{stays}"
        from oomph.explain.matching.fallback import UNRELATED

        name = "".join(f" ({found.name})" for found in self.diagnoses[:1] if found.name != UNRELATED)
        if self.error is not None:
            words = message_of(self.error)
            return f"the function raised {type(self.error).__name__}{': ' * bool(words)}{words}{name}"
        return f"the function's process {ProcessEnd(self.returncode).in_full}{name}"


def isolate(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    environ: Mapping[str, str] | None = None,
) -> Isolated:
    """Call `fn(*args, **kwargs)` in its own process, and return its result or the diagnosis of its failure.

        outcome = oomph.isolate(train, (config,), timeout=3600)
        if not outcome.ok:
            print(outcome.reason, outcome.diagnoses)
        weights = outcome.result()

    The process is a new Python with the caller's path and environment, its own TensorFlow and its own GPU context. It
    ends when the call ends, along with everything that it started. Only if it crashes do processes that it moved to
    other sessions keep running. Its output goes to the same places as the caller's. The arguments and the result must
    be picklable: arrays, weights, Keras models, plain values. A function that is defined in a notebook or inside
    another function requires the cloudpickle package.

    Args:
        fn: the function to call.
        args: its positional arguments.
        kwargs: its keyword arguments.
        timeout: the time in seconds after which the process is killed, which leaves its Python stacks at the end of
            `stderr`, or None for no limit.
        environ: environment variables to add to the caller's, such as CUDA_VISIBLE_DEVICES.

    Raises:
        UsageError: if the function or its arguments cannot be pickled.
        TypeError: if an argument has the wrong type.
        ValueError: if `timeout` is too large or not above 0, or if `environ` contains an invalid name or value.
    """
    _check(fn, args, kwargs or {})
    _check_timeout(timeout)
    _check_environ(environ or {})
    call = isolated_call.pack_call(fn, tuple(args), dict(kwargs or {}))
    kills_before, started = available_memory.oom_kills(), time.monotonic()
    child = IsolatedProcess(call, {**os.environ, **(environ or {})})
    try:
        child.wait(None if timeout is None else started + timeout)
    finally:
        child.end()
    kills, before = available_memory.oom_kills(), kills_before
    new_kills = None if kills is None or before is None else kills - before
    return replace(_outcome(child, time.monotonic() - started, new_kills), timeout=timeout)


def _check(fn: object, args: object, kwargs: object) -> None:
    """Report an invalid argument before a process is started."""
    if not callable(fn):
        raise TypeError(f"isolate: fn must be a function, not {_shown(fn)}")
    if not isinstance(args, Iterable) or isinstance(args, str | bytes):
        raise TypeError(f"isolate: args must be a tuple of arguments, such as (x,), not {_shown(args)}")
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"isolate: kwargs must be a dict of named arguments, not {_shown(kwargs)}")


def _check_timeout(timeout: object) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"isolate: timeout must be a number of seconds or None, not {_shown(timeout)}")
    try:
        seconds = 1.0 if timeout is None else float(timeout)
    except OverflowError:
        raise ValueError("isolate: timeout is too large; None waits forever") from None
    if not seconds > 0:
        raise ValueError(f"isolate: timeout must be above 0 seconds, not {seconds:g}; None waits forever")


def _check_environ(environ: object) -> None:
    if not isinstance(environ, Mapping):
        raise TypeError(f"isolate: environ must be a dict of strings, not {_shown(environ)}")
    for name, value in environ.items():
        _check_variable(name, value)


def _check_variable(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"isolate: environ must contain only strings, but has {_shown(name)}: {_shown(value)}")
    if not name or "=" in name or "\0" in name + value:
        raise ValueError(f"isolate: environ has {_shown(name)}: {_shown(value)}, not a valid environment variable")


def _small(value: object) -> str:
    """Format any value as a single short line."""
    return " ".join(_SMALL.repr(value).split())


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _outcome(child: IsolatedProcess, seconds: float, oom_kills: int | None) -> Isolated:
    answer = isolated_call.unpack_answer(bytes(child.answer))
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
    child: IsolatedProcess, answer: isolated_call.IsolatedAnswer | None, oom_kills: int | None
) -> tuple[Diagnosis, ...]:
    from oomph.explain.diagnose import diagnose_log
    from oomph.explain.evidence.evidence import Evidence

    def others() -> Iterator[Evidence]:
        if answer is not None and answer.error is not None:
            yield Evidence.of_exception_text(answer.type_name, answer.message)
        if not child.timed_out:
            yield Evidence.of_exit(child.returncode, oom_kills)

    return diagnose_log(child.stderr, others())
