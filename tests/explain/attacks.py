"""Texts that are hardest for a regular expression, generated from its own grammar.

A backtracking engine is slow if a text can be matched in many ways and then fails. Every repetition in a pattern is
therefore pumped: its prefix once and its body many times, both of them repeatedly, and only the prefix, with an ending
that nothing matches.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from typing import Any

try:
    from re import _constants as grammar  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # before Python 3.11
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sre_constants as grammar
        import sre_parse as parser

END = "\x00"
_FLAGS = re.IGNORECASE | re.VERBOSE | re.MULTILINE | re.DOTALL | re.ASCII
_REPEATS = {getattr(grammar, name, None) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")} - {None}
_LETTERS = "a0 .:/-_(A"
_OF_CATEGORY = {
    grammar.CATEGORY_DIGIT: "0",
    grammar.CATEGORY_SPACE: " ",
    grammar.CATEGORY_WORD: "a",
    grammar.CATEGORY_NOT_DIGIT: "a",
    grammar.CATEGORY_NOT_SPACE: "a",
    grammar.CATEGORY_NOT_WORD: " ",
}


def attacks(pattern: re.Pattern[Any], size: int, seed: int = 1) -> Iterator[Any]:
    """Yield texts with this many characters or bytes."""
    if isinstance(pattern.pattern, bytes):
        same = re.compile(pattern.pattern.decode("latin-1"), pattern.flags & _FLAGS)
        yield from (text.encode("latin-1", "replace") for text in attacks(same, size, seed))
        return
    chance = random.Random(seed)
    tree = list(parser.parse(pattern.pattern, pattern.flags & _FLAGS))
    for _ in range(4):
        whole = _sample(tree, chance, 2)
        yield from (_pumped(whole, size), _pumped(whole[:-1], size) + END)
    for before, body in _repetitions(tree, []):
        for _ in range(2):
            start, more = _sample(before, chance), _sample(body, chance) or "a"
            yield (start + more * size)[:size] + END
            yield _pumped(start + more, size) + END
            yield _pumped(start, size) + END
            yield _pumped(start + more * 40, size) + END
    runs = [_sample([node], chance) for node in tree]
    for number, run in enumerate(runs):
        yield _pumped("".join(runs[: number + 1]) + run * 20, size) + END


def sample(pattern: str, seed: int) -> str:
    """Build a text that a pattern matches, ignoring lookarounds."""
    return _sample(parser.parse(pattern), random.Random(seed), 2)


def _pumped(text: str, size: int) -> str:
    return (text * (size // max(1, len(text)) + 1))[:size]


def _sample(tree: Any, chance: random.Random, times: int = 1) -> str:
    return "".join(_one(kind, value, chance, times) for kind, value in tree)


def _one(kind: Any, value: Any, chance: random.Random, times: int) -> str:
    """Build a short text that one node matches."""
    if kind is grammar.LITERAL:
        return chr(value)
    if kind is grammar.NOT_LITERAL:
        return "b" if value == ord("a") else "a"
    if kind is grammar.ANY:
        return chance.choice(_LETTERS)
    if kind is grammar.IN:
        return _of_set(value, chance)
    if kind in _REPEATS:
        least, most, body = value
        count = max(least, min(times, most)) if chance.random() < 0.5 else least
        return "".join(_sample(body, chance) for _ in range(count))
    if kind is grammar.SUBPATTERN:
        return _sample(value[-1], chance, times)
    if kind is grammar.BRANCH:
        return _sample(chance.choice(value[1]), chance, times)
    return ""


def _of_set(items: list[Any], chance: random.Random) -> str:
    if items[0][0] is not grammar.NEGATE:
        kind, value = chance.choice(items)
        if kind is grammar.RANGE:
            return chr(chance.choice(value))
        return chr(value) if kind is grammar.LITERAL else _OF_CATEGORY.get(value, "a")
    allowed = [letter for letter in _LETTERS if not any(_holds(item, letter) for item in items[1:])]
    return chance.choice(allowed or ["\x80"])


def _holds(item: Any, letter: str) -> bool:
    kind, value = item
    if kind is grammar.LITERAL:
        return chr(value) == letter
    if kind is grammar.RANGE:
        return value[0] <= ord(letter) <= value[1]
    return {
        grammar.CATEGORY_SPACE: letter.isspace(),
        grammar.CATEGORY_DIGIT: letter.isdigit(),
        grammar.CATEGORY_WORD: letter.isalnum() or letter == "_",
    }.get(value, False)


def _repetitions(tree: Any, before: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield each repetition in a pattern, with everything that leads to it."""
    for number, (kind, value) in enumerate(tree):
        leading = [*before, *tree[:number]]
        if kind in _REPEATS:
            yield leading, list(value[2])
            yield from _repetitions(list(value[2]), leading)
        elif kind is grammar.SUBPATTERN:
            yield from _repetitions(list(value[-1]), leading)
        elif kind is grammar.BRANCH:
            for branch in value[1]:
                yield from _repetitions(list(branch), leading)
