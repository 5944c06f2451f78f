"""Finds the few signatures a text may match: each is filed under the rarest whole word of its literal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from oomph.explain.catalogue.fault import Fault, Filed, Signature

_WORD = re.compile(r"[A-Za-z]+")

_Entry: TypeAlias = tuple[str, Fault, Filed]
"""A literal, its page, and how it is filed there."""


class Index(NamedTuple):
    """Every signature of a catalogue, by source of evidence and by word."""

    entries: Mapping[str, Mapping[str, Sequence[_Entry]]]
    going_on: Mapping[str, Sequence[_Entry]]
    """The entries that cannot be filed, as no word of their literal is whole."""
    foreign: Mapping[str, Sequence[_Entry]]
    """The entries of that kind that are not ASCII: shells in other languages."""

    def candidates(self, source: str, text: str) -> Iterator[tuple[Fault, Signature]]:
        """The signatures for this source whose literal is in the text."""
        for literal, fault, filed in self._filed(source, text):
            if literal in text:
                yield fault, fault.signature(filed)

    def _filed(self, source: str, text: str) -> Iterator[_Entry]:
        yield from self.going_on.get(source, ())
        if not text.isascii():
            yield from self.foreign.get(source, ())
        filed = self.entries.get(source)
        if filed:
            for word in sorted(filed.keys() & set(_WORD.findall(text))):  # a set has another order in every process
                yield from filed[word]

    def words(self, source: str) -> frozenset[str]:
        """Words of which every text that matches a signature for this source holds one, unless it holds one of
        `beginnings`."""
        return frozenset(self.entries.get(source, ()))

    def beginnings(self, source: str) -> frozenset[str]:
        """The literals that may be the beginning of a longer word."""
        unfiled = (*self.going_on.get(source, ()), *self.foreign.get(source, ()))
        return frozenset(literal for literal, _, _ in unfiled)


@lru_cache(maxsize=8)
def index(catalogue: tuple[Fault, ...]) -> Index:
    """The index of a catalogue, made once."""
    entries: dict[str, dict[str, list[_Entry]]] = {}
    going_on: dict[str, list[_Entry]] = {}
    foreign: dict[str, list[_Entry]] = {}
    for fault in catalogue:
        for filed in fault.filed:
            literal, word, sources, _ = filed
            entry = (literal, fault, filed)
            for source in sources:
                if word:
                    entries.setdefault(source, {}).setdefault(word, []).append(entry)
                else:
                    unfiled = going_on if literal.isascii() else foreign
                    unfiled.setdefault(source, []).append(entry)
    return Index(entries, going_on, foreign)
