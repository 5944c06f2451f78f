"""Evidence: an observed fact and its origin, including the facts from a caught exception."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oomph.terminal.endings import ProcessEnd

TEXT_LIMIT = 4096
"""The maximum length of a fact's text, in characters. The rest of a longer line adds nothing useful."""

_MESSAGE_LIMIT = 8 * TEXT_LIMIT
"""The maximum length of an exception's message, in characters. Keras puts the whole call stack into it."""


class Evidence(NamedTuple):
    """An observed fact: a log line, an exception, an exit status, or a sign that training continued."""

    source: str
    """The source of the fact: "log", "exception", "exit" or "progress", or "memory-map" or "trend" for a summary of
    many lines."""
    text: str
    line: int | None = None
    """The line number in the log, counted from 1."""
    origin: str = ""
    """The source in which the fact was observed, if there are several: "attempt 2, stderr"."""
    attempt: int | None = None
    """The attempt of a run to which the fact belongs, or None outside of a run."""

    @classmethod
    def of_exception(cls, error: BaseException, origin: str = "") -> Evidence:
        """Return the fact that this exception was raised, with only its message, and its type as Python prints it."""
        kind = type(error)
        where = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
        return cls.of_exception_text(f"{where}{kind.__qualname__}", message_of(error), origin)

    @classmethod
    def of_exception_text(cls, type_name: str, message: str, origin: str = "") -> Evidence:
        """Return the fact that an exception was raised, given its type and message as text, as in a journal."""
        text = f"{type_name}: {message}" if message else type_name
        if len(text) > _MESSAGE_LIMIT:  # the type is at the start and the reason at the end, after any long call stack
            text = f"{text[:TEXT_LIMIT]}\n...\n{text[TEXT_LIMIT - _MESSAGE_LIMIT :]}"
        return cls("exception", text, origin=origin)

    @classmethod
    def of_exit(cls, returncode: int, oom_kills: int | None = None, origin: str = "") -> Evidence:
        """Return the fact that a process exited.

        `returncode` is as in `subprocess`: −n if the process was killed by signal n. `oom_kills` is the number of new
        OOM kills in the cgroup, or None if the counter could not be read.
        """
        counted = "unknown" if oom_kills is None else str(oom_kills)
        return cls("exit", f"{ProcessEnd(returncode).in_full}; cgroup OOM kills: {counted}", origin=origin)

    @classmethod
    def of_progress(cls, text: str, origin: str = "") -> Evidence:
        """Return a sign that training continued, so that no earlier fact ended the program."""
        return cls("progress", text, origin=origin)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or an empty string if its `__str__` fails."""
    try:
        return str(error)
    except Exception:
        return ""  # a broken __str__ in a custom exception must not hide that it was raised


_LONGEST_CHAIN = 20
_DIRECT = "The above exception was the direct cause of the following exception:"
_MEANWHILE = "During handling of the above exception, another exception occurred:"


def evidence_of(error: BaseException) -> Iterator[Evidence]:
    """Yield the exception and its causes, earliest first, each preceded by the frames that led to it.

    The facts are worded the way Python prints them, so that they lead to the same guesses as a log.
    """
    from traceback import extract_tb  # imported here because logs do not need it

    before: BaseException | None = None
    for link in reversed(_chain(error)):
        if before is not None:
            yield Evidence("log", _DIRECT if link.__cause__ is before else _MEANWHILE)
        before = link
        if link.__traceback__ is not None:
            yield Evidence("log", "Traceback (most recent call last):")
            for frame in extract_tb(link.__traceback__):
                yield Evidence("log", f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
                if frame.line:
                    yield Evidence("log", f"    {frame.line}")
        yield Evidence.of_exception(link)


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain and len(chain) < _LONGEST_CHAIN:
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain
