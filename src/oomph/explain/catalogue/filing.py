"""The word under which a signature is filed: a whole word of its literal, and as rare as may be. Pure."""

from __future__ import annotations

from functools import cache

from oomph.files.patterns import lazy_pattern

_WORD = lazy_pattern(r"[A-Za-z]+")
# Words of every training's log; filing a signature under one of them would make the reader stop at each line.
_EVERYWHERE = frozenset(
    (
        *("a", "an", "and", "at", "by", "error", "file", "for", "from", "gpu", "in", "is", "it", "line", "loss"),
        *("most", "not", "of", "on", "op", "or", "python", "recent", "step", "tensor", "tensorflow", "the", "this"),
        *("to", "training", "was", "with", "you", "be", "are", "has", "have", "had", "but", "could", "must", "does"),
        *("data", "device", "devices", "gradient", "gradients", "image", "images", "memory", "size", "model", "path"),
        *("input", "inputs", "output", "value", "values", "version", "process", "type", "shape", "label", "labels"),
        *("function", "worker", "rank", "node", "weights", "weight", "variables", "variable", "batch", "layer", "code"),
        *("read", "load", "check", "status", "config", "module", "build", "start", "found", "valid", "range", "large"),
    )
)


@cache
def key(literal: str) -> str:
    """The word to file a literal under: one that is whole wherever the literal stands, and as rare as may be.

    A word at the edge of the literal may go on in the text ("ut of memory"), so a rare inner one is preferred; when
    there is none, a word at the edge counts, which must then stand in the text as a whole word. ValueError: no word.
    """
    words: list[str] = _WORD.findall(literal)
    if not words:
        raise ValueError(f"a literal must hold a word: {literal!r}")
    inner = words[literal.startswith(words[0]) : len(words) - literal.endswith(words[-1])]
    for of_its_kind in (_is_rare, _is_long):
        for found in (inner, words):
            if best := [word for word in found if of_its_kind(word)]:
                return max(best, key=len)
    return max(inner or words, key=len)


def _is_rare(word: str) -> bool:
    return _is_long(word) and word.lower() not in _EVERYWHERE


def _is_long(word: str) -> bool:
    return len(word) > 3
