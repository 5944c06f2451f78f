"""Finds the few signatures that a text may bear: each is filed under the rarest whole word of its literal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from string import ascii_letters
from typing import NamedTuple

from oomph.faults.catalogue.fault import Fault, Signature

_WORD = re.compile(r"[A-Za-z]+")
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

Entry = tuple[str, Fault, Signature]


class Index(NamedTuple):
    """Every signature of a catalogue, by source of evidence and by word."""

    entries: Mapping[str, Mapping[str, Sequence[Entry]]]
    going_on: Mapping[str, Sequence[Entry]]
    """Those that cannot be filed, as no word of their literal is whole."""
    foreign: Mapping[str, Sequence[Entry]]
    """Those of them that are not ASCII: shells in other languages."""

    def candidates(self, source: str, text: str) -> Iterator[tuple[Fault, Signature]]:
        """The signatures for this source whose literal is in the text."""
        others = () if text.isascii() else self.foreign.get(source, ())
        for literal, fault, signature in (*self.going_on.get(source, ()), *others):
            if literal in text:
                yield fault, signature
        filed = self.entries.get(source)
        if not filed:
            return
        for word in sorted(filed.keys() & set(_WORD.findall(text))):  # a set has another order in every process
            for literal, fault, signature in filed[word]:
                if literal in text:
                    yield fault, signature

    def words(self, source: str) -> frozenset[str]:
        """One of these is in every text that bears a signature for this source, or one of `beginnings`."""
        return frozenset(self.entries.get(source, ()))

    def beginnings(self, source: str) -> frozenset[str]:
        """The literals that may be the beginning of a longer word."""
        unfiled = (*self.going_on.get(source, ()), *self.foreign.get(source, ()))
        return frozenset(literal for literal, _, _ in unfiled)


@lru_cache(maxsize=8)
def index(catalogue: tuple[Fault, ...]) -> Index:
    """The index of a catalogue, made once."""
    entries: dict[str, dict[str, list[Entry]]] = {}
    going_on: dict[str, list[Entry]] = {}
    foreign: dict[str, list[Entry]] = {}
    for fault in catalogue:
        for signature in fault.signatures:
            entry = (signature.literal, fault, signature)
            for source in signature.sources:
                if signature.goes_on:
                    unfiled = going_on if signature.literal.isascii() else foreign
                    unfiled.setdefault(source, []).append(entry)
                else:
                    entries.setdefault(source, {}).setdefault(key(signature.literal), []).append(entry)
    return Index(entries, going_on, foreign)


@cache
def key(literal: str) -> str:
    """The word to file a literal under: one that is whole wherever the literal stands, and as rare as may be.

    A word at the edge of the literal may go on in the text ("ut of memory"), so a rare inner one is preferred; when
    there is none, a word at the edge counts, which must then stand in the text as a whole word. ValueError: no word.
    """
    words: list[str] = _WORD.findall(literal)
    if not words:
        raise ValueError(f"a literal must hold a word: {literal!r}")
    inner = words[literal[0] in ascii_letters : len(words) - (literal[-1] in ascii_letters)]
    for of_its_kind in (_is_rare, _is_long):
        for found in (inner, words):
            if best := [word for word in found if of_its_kind(word)]:
                return max(best, key=len)
    return max(inner or words, key=len)


def _is_rare(word: str) -> bool:
    return _is_long(word) and word.lower() not in _EVERYWHERE


def _is_long(word: str) -> bool:
    return len(word) > 3
