"""Chooses the part of a long line of evidence that is shown: around the words that decide the diagnosis. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.explain.catalogue.fault import Signature, compiled
from oomph.files.patterns import lazy_pattern

_HEAD = 4
"""One part in this many of the excerpt shows the beginning of the line, which names the speaker."""
_CONTEXT = 24
_GAP = " ... "
# Compilers name the file, the line and the command first; what went wrong stands after one of these.
_COMPILERS = ("ptxas", "nvlink", "xla", "Xla", "XLA", "HLO", "hlo", "MLIR", "mlir", "LLVM", "compil")
_VERDICT = lazy_pattern(r"\b(?:fatal|error) {0,8}: |\b[Ff]ailed\b")


def excerpt(text: str, signatures: Sequence[Signature], most: int) -> str:
    """Cut the text to `most` characters, and mark where some were left out.

    Args:
        text: one line.
        signatures: those whose words are to be kept if there is room, the most important first.
        most: how many characters may be shown.
    """
    if len(text) <= most:
        return text
    start, end = next(_decisive(text, signatures), (0, 0))
    head, begin = text[: most // _HEAD], start - _CONTEXT
    if end <= most or begin <= len(head):
        return text[:most] + _GAP.rstrip()
    shown = text[begin : begin + most - len(head) - len(_GAP)]
    return head + _GAP + shown + (_GAP.rstrip() if begin + len(shown) < len(text) else "")


def _decisive(text: str, signatures: Sequence[Signature]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the decisive words, the likeliest first."""
    places = [place for signature in signatures if (place := _place(text, signature)) is not None]
    if places and any(name in text for name in _COMPILERS):
        verdict = _VERDICT.search(text, places[0][0])
        if verdict is not None:
            yield verdict.start(), min(verdict.end() + 4 * _CONTEXT, len(text))
    yield from places


def _place(text: str, signature: Signature) -> tuple[int, int] | None:
    """The span of the signature's match, or of its literal in a long match; None without the literal."""
    start = text.find(signature.literal)
    if start < 0:
        return None
    found = compiled(signature.pattern).search(text) if signature.pattern else None
    if found is not None:
        start = text.find(signature.literal, *found.span())
        if start < 0 or found.end() - found.start() <= 8 * _CONTEXT:
            return found.span()
    return start, start + len(signature.literal)
