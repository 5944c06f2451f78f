"""Packs a function call in the caller, makes it in a separate process, and returns the answer through pipes.

Call and answer are pickled, because both ends are the same user's code on the same machine. Nothing is written to disk.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oomph.errors import UsageError
from oomph.explain.evidence.evidence import message_of
from oomph.process.isolation.descendants import adopt_orphans, end_own_strays
from oomph.process.spawn import die_with

_MAIN_ELSEWHERE = "__mp_main__"
"""The name that multiprocessing gives to the script in the processes that it starts. The same name is used here."""


@dataclass(frozen=True)
class IsolatedAnswer:
    """The isolated process's answer: a value or an error."""

    ok: bool
    value: Any = None
    error: BaseException | None = None
    type_name: str = ""
    message: str = ""
    traceback: str = ""


class LostError(Exception):
    """Replaces an exception that cannot be pickled."""


def pack_call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Pickle the function and its arguments. Raises UsageError if they cannot be pickled."""
    name = getattr(fn, "__qualname__", type(fn).__name__)
    module = getattr(fn, "__module__", None)
    here = module in ("__main__", _MAIN_ELSEWHERE) or "<locals>" in name or "<lambda>" in name
    dumps = _dumps_by_value()
    if here and dumps is None and ("<" in name or _main_file() is None):
        raise UsageError(f"{_why_by_value(name)}: pip install cloudpickle, or put it into a module")
    try:
        call = (pickle.dumps if dumps is None else dumps)((fn, args, kwargs))
    except Exception as error:
        raise UsageError(f"{name} and its arguments cannot be pickled: {error}") from error
    main = _main_file() if here and (dumps is None or module == _MAIN_ELSEWHERE) else None
    return pickle.dumps({"argv": sys.argv, "main": main, "call": call})


def _why_by_value(name: str) -> str:
    if "<locals>" in name:
        return f"{name} is defined within another function"
    return "a lambda has no importable name" if "<" in name else f"{name} is defined in a notebook"


def unpack_call(data: bytes) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Unpickle the function and its arguments, in the isolated process."""
    call = pickle.loads(data)
    sys.argv = call["argv"]
    if call["main"] is not None:
        _import_main(call["main"])
    fn, args, kwargs = pickle.loads(call["call"])
    return fn, args, kwargs


def pack_value(value: Any) -> bytes:
    """Pickle a result. Raises TypeError if that fails, with the name of the entry to blame if the result is a dict."""
    dumps = _dumps_by_value() or pickle.dumps
    try:
        data: bytes = dumps({"ok": True, "value": value})
    except Exception as error:
        named, found = _culprit(value, dumps)
        what = f"{named}, a {type(found).__name__}, cannot be sent back to the process that asked for it"
        raise TypeError(f"{what} ({type(error).__name__}: {error})") from None
    return data


def _culprit(value: Any, dumps: Callable[[Any], bytes]) -> tuple[str, Any]:
    """Return the name and value of the first entry of a dict that cannot be pickled, or the whole result."""
    for name, entry in value.items() if type(value) is dict else ():
        try:
            dumps(entry)
        except Exception:
            return str(name), entry
    return "the result", value


def pack_error(error: BaseException) -> bytes:
    """Pickle an exception's text, along with the exception itself if it survives pickling."""
    words = {"type_name": type(error).__name__, "message": message_of(error)}
    words["traceback"] = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        carried = pickle.dumps(error)
        pickle.loads(carried)  # many exceptions can be pickled but not unpickled
    except Exception:
        carried = None
    return pickle.dumps({"ok": False, "error": carried, **words})


def unpack_answer(data: bytes) -> IsolatedAnswer | None:
    """Unpickle the answer in the caller, or return None if the process exited without one."""
    sys.modules.setdefault(_MAIN_ELSEWHERE, sys.modules["__main__"])
    try:
        document = pickle.loads(data)
    except Exception as error:
        return None if not data or _is_cut_short(error) else _unreadable(error)
    if document["ok"]:
        return IsolatedAnswer(True, document["value"])
    words = {key: document[key] for key in ("type_name", "message", "traceback")}
    return IsolatedAnswer(False, error=_carried(document["error"], words), **words)


def _carried(data: bytes | None, words: dict[str, str]) -> BaseException:
    try:
        if data is not None:
            error: BaseException = pickle.loads(data)
            return error
    except Exception:
        pass  # its class, or something it needs, is not available here
    return LostError(f"{words['type_name']}: {words['message']}")


def _unreadable(error: Exception) -> IsolatedAnswer:
    """Return the answer for a result that the caller cannot unpickle, e.g. because it lacks a class."""
    return IsolatedAnswer(False, error=error, type_name=type(error).__name__, message=str(error))


def _is_cut_short(error: Exception) -> bool:
    return isinstance(error, EOFError) or "truncated" in str(error)


def _dumps_by_value() -> Callable[[Any], bytes] | None:
    """Return cloudpickle's `dumps`, which pickles functions that cannot be imported, or None if not installed."""
    try:
        import cloudpickle  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return None
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def _main_file() -> str | None:
    path = getattr(sys.modules["__main__"], "__file__", None)
    return path if isinstance(path, str) and os.path.isfile(path) else None


def _import_main(path: str) -> None:
    """Import the caller's script under a different name, so that code guarded by `__name__` does not run again.

    In the caller, that name, `__mp_main__` as in multiprocessing, refers to the script itself.
    """
    from multiprocessing import spawn

    spawn._fixup_main_from_path(path)  # type: ignore[attr-defined]


def main() -> None:
    """Run in the child as `python -c ... PATH IN OUT CALLER`: descriptors of call and answer, and the caller's PID."""
    die_with(int(sys.argv[4]))
    pid = os.getpid()
    adopt_orphans()
    atexit.register(end_own_strays, pid)  # registered first, so called last, after every thread has ended
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    read_fd, write_fd = int(sys.argv[2]), int(sys.argv[3])
    with os.fdopen(read_fd, "rb") as stream:
        call = stream.read()
    try:
        fn, args, kwargs = unpack_call(call)
        answer, code = pack_value(fn(*args, **kwargs)), 0
    except SystemExit as error:
        answer, code = pack_error(error), error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        answer, code = pack_error(error), 1
    if os.getpid() == pid:  # the function's forks may get here too, via sys.exit
        with os.fdopen(write_fd, "wb") as stream:
            stream.write(answer)
    sys.exit(code)
