"""Turns a caught exception into evidence, from its words and frames alone."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.explain.evidence.evidence import Evidence

_LONGEST_CHAIN = 20
_DIRECT = "The above exception was the direct cause of the following exception:"
_MEANWHILE = "During handling of the above exception, another exception occurred:"


def evidence_of(error: BaseException) -> Iterator[Evidence]:
    """The exception and its causes, the earliest first, each after the frames that led to it.

    Worded as Python prints them, so that guesses from a log's words are the same.
    """
    from traceback import extract_tb  # a log needs none of it

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
