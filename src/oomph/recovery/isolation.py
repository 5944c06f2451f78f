"""isolate: a function in a process of its own, so that a crash of the GPU does not take the caller with it.

What goes in is the function and its arguments, what comes out is what it returns or what became of it; both through
pipes between the two processes, nothing through files. The caller may be a notebook, a service or a script; it is not
forked, since TensorFlow and CUDA do not survive that.
"""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oomph
from oomph.errors import IsolatedError
from oomph.recovery import cgroup, parcel
from oomph.recovery.group import why_it_stays
from oomph.recovery.stderr import Tail

if TYPE_CHECKING:
    from oomph.faults.diagnose import Diagnosis

_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from oomph.recovery.isolated import main; main()"
_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_STACK_SECONDS = 0.5
_GRACE_SECONDS = 5.0
_KILLED_SECONDS = 10.0
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
            stays = f", and its process can not be ended: {self.left_behind}" if self.left_behind else ""
            return f"the function did not return within {self.timeout:g} s{stays}"
        name = f" ({self.diagnoses[0].name})" if self.diagnoses else ""
        if self.error is not None:
            return f"the function raised {type(self.error).__name__}: {self.error}{name}"
        from oomph.faults.evidence import ending

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
    the GPU, and ends with the call, together with everything that it started. Its output goes where the caller's goes.
    Arguments and result must be picklable: arrays, weights, Keras models, plain values. A function of a notebook, or
    one defined within another, needs the package cloudpickle.

    Args:
        fn: the function.
        args: its positional arguments.
        kwargs: its named arguments.
        timeout: seconds until the process is ended; its Python stacks are then at the end of `stderr`. None: never.
        environ: environment variables on top of the caller's, such as CUDA_VISIBLE_DEVICES.

    Raises:
        UsageError: when the function or its arguments can not be carried over.
        TypeError: when `fn`, `timeout` or `environ` is of another kind.
        ValueError: when `timeout` is not above 0, or no environment can hold what is in `environ`.
    """
    _check(fn, timeout, environ or {})
    call = parcel.pack_call(fn, tuple(args), dict(kwargs or {}))
    kills_before, started = cgroup.oom_kills(), time.monotonic()
    child = _Child(call, {**os.environ, **(environ or {})})
    try:
        child.wait(None if timeout is None else started + timeout)
    finally:
        child.end()
    kills, before = cgroup.oom_kills(), kills_before
    new_kills = None if kills is None or before is None else kills - before
    return replace(_outcome(child, time.monotonic() - started, new_kills), timeout=timeout)


def _check(fn: object, timeout: object, environ: object) -> None:
    """Say what is wrong with an argument before a process is started for it."""
    if not callable(fn):
        raise TypeError(f"isolate: fn has to be a function, and not {_shown(fn)}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"isolate: timeout has to be a number of seconds or None, and not {_shown(timeout)}")
    if timeout is not None and not float(timeout) > 0:
        raise ValueError(f"isolate: timeout has to be above 0 seconds, and not {float(timeout):g}; None waits for ever")
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


class _Child:
    """The process, and the three streams between it and us, attended to by one loop without threads."""

    def __init__(self, call: bytes, environ: Mapping[str, str]) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self._tail, self.answer, self.timed_out = Tail(None), bytearray(), False
        path = [str(Path(oomph.__file__).parents[1]), *sys.path]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, json.dumps(path), str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=dict(environ),
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,
            )
        except BaseException:
            os.close(ours_in)
            os.close(ours_out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        assert self._process.stderr is not None
        self._selector = selectors.DefaultSelector()
        self._watch(ours_in, selectors.EVENT_WRITE, self._feed)
        self._watch(ours_out, selectors.EVENT_READ, self._hear)
        self._watch(os.dup(self._process.stderr.fileno()), selectors.EVENT_READ, self._pass_on)
        self._process.stderr.close()
        self._left = memoryview(call)
        self.returncode, self.left_behind = 0, ""

    def wait(self, until: float | None) -> None:
        """Until the process has ended, or its time is up."""
        while self._process.poll() is None:
            self._attend(_POLL_SECONDS)
            if until is not None and time.monotonic() >= until:
                self.timed_out = True
                self._signal(signal.SIGUSR1)  # it writes its stacks; see isolated.py
                self._attend_for(_STACK_SECONDS)
                return

    def end(self) -> None:
        """Leave nothing of it: SIGTERM, a grace, SIGKILL to the whole group; and take in its last words."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            self._attend_for(_GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self._reap()
        while self._attend(0):
            pass
        for key in list(self._selector.get_map().values()):
            self._close(key.fd)
        self._selector.close()

    def _reap(self) -> None:
        """SIGKILL does not end a process that waits in the kernel for a broken driver: that one is left behind."""
        try:
            self.returncode = self._process.wait(_KILLED_SECONDS)
        except subprocess.TimeoutExpired:
            self.left_behind = why_it_stays(self._process.pid)
            self.returncode = self._process.returncode = -signal.SIGKILL

    @property
    def stderr(self) -> bytes:
        """The end of what it wrote there."""
        return self._tail.data

    def _attend_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < until:
            self._attend(_POLL_SECONDS)

    def _attend(self, seconds: float) -> bool:
        """Carry what is there; whether there was anything."""
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
            self._left = self._left[:0]  # it has ended without reading all
        if not self._left:
            self._close(fd)

    def _hear(self, fd: int) -> None:
        data = os.read(fd, _CHUNK)
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

    def _signal(self, signum: int) -> None:
        try:
            os.killpg(self._process.pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # nobody left in it


def _outcome(child: _Child, seconds: float, oom_kills: int | None) -> Isolated:
    answer = parcel.unpack_answer(bytes(child.answer))
    stderr = child.stderr.decode(errors="replace")
    if answer is not None and answer.ok and not child.timed_out:
        return Isolated(True, answer.value, returncode=child.returncode, seconds=seconds, stderr=stderr)
    return Isolated(
        ok=False,
        error=None if answer is None else answer.error,
        traceback="" if answer is None else answer.traceback,
        diagnoses=_diagnosed(child, answer, oom_kills),
        returncode=child.returncode,
        timed_out=child.timed_out,
        left_behind=child.left_behind,
        seconds=seconds,
        stderr=stderr,
    )


def _diagnosed(child: _Child, answer: parcel.Answer | None, oom_kills: int | None) -> tuple[Diagnosis, ...]:
    from oomph.faults.diagnose import diagnose
    from oomph.faults.evidence import Evidence
    from oomph.faults.log import read_log

    def evidence() -> Iterator[Evidence]:
        yield from read_log(io.BytesIO(child.stderr))
        if answer is not None and answer.error is not None:
            yield Evidence.of_exception_text(answer.type_name, answer.message)
        if not child.timed_out:
            yield Evidence.of_exit(child.returncode, oom_kills)

    return diagnose(evidence())
