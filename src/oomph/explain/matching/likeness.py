"""Finds the pages most similar to an error that no page matches, by its class, operation and vocabulary. Pure.

TensorFlow has about a thousand error messages, but sorts them into sixteen classes (python/framework/errors_impl.py)
and uses few nouns in them. Each class gives its usual pages a little weight, and each noun and operation mentioned adds
some. The result is only a suspicion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from oomph.explain.catalogue.fault import compiled
from oomph.explain.matching.vocabulary import AT_IMPORT, CLASSES, COMMON_WORDS, OPERATIONS, PATHS, WORDS
from oomph.files.patterns import lazy_pattern

MOST = 3
"""The maximum number of pages to return."""
SUREST = 0.5
_THIN = 0.2  # no page is returned if the best one has less
_THIN_FOR_PYTHON = 0.35  # for plain Python errors, whose class says little
_NEIGHBOUR = 0.45  # minimum share of the first page's weight for another page to be returned
_FIRST_WORD, _COMMON_WORD, _NEXT_WORD, _MOST_WORDS = 0.25, 0.12, 0.05, 3


class Likeness(NamedTuple):
    """A page, and how similar an error is to it, from 0 to 1."""

    name: str
    confidence: float


_OPERATION, _DECODER = 0.22, 0.4
"""The weights added by an operation named in the error, and by a decoding operation, which rarely fails except because
of its data."""
_ON_GPU = frozenset(("cudnn-execution-failed", "cublas-execution-failed", "cuda-library-failure"))
_BY_LIBRARY = frozenset(("Internal", "Unknown", "NotFound", "FailedPrecondition", "XlaRuntime", "ResourceExhausted"))
"""The classes of errors in GPU libraries. The other classes mean that an operation was called incorrectly."""

_NODE = lazy_pattern(
    r"\{\{(?:function_)?node (?P<node>[^}\n]{1,300})\}\}|\[\[node:? (?P<old>[^\s(\]]{1,300})|\[Op:(?P<op>\w{1,80})\]",
    re.I,
)
_NODES = lazy_pattern(  # only from the first bracket in a row, since the others cannot match
    r"(?<!\[)\[\[.{0,2000}?\]\]|\{\{.{0,400}?\}\}|\[Op:\w{1,80}\]"
    r"|\(defined at [^)\n]{0,300}\)|\(?of type [^)\n]{0,200}\)?",
    re.S,
)
_PATH = lazy_pattern(
    r"(?:[A-Za-z]:)?(?:[\w.~-]{1,100})?[/\\][\w./\\-]{1,300}|\b\w{1,80}\.(?:csv|jpe?g|png|tfrecords?|h5|hdf5|keras|ckpt|npy|npz)\b"
)
_STATUS = lazy_pattern(r"(?:\(0\) |status: |: )?\b(?P<status>[A-Z][A-Za-z_]{5,25}(?: [a-z]{4,12})?): ")
_CLASS = lazy_pattern(
    r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z]\w*?)(?:Error|_error)?(?: \(see above for traceback\))?(?::|\s|\Z)"
)
CORRECTED = ". Did you mean: '"
_OWN = ("assertion failed", "Condition x")
_CANONICAL = {name.lower(): name for name in CLASSES}


def likely(text: str) -> tuple[Likeness, ...]:
    """Return the pages most similar to an error in one of TensorFlow's own classes, the most likely first.

    Args:
        text: the error as printed, "InvalidArgumentError: ...", or a status, "INTERNAL: ...", with all of its lines.
    """
    kind = kind_of(text)
    if kind not in CLASSES or is_asserted(text):
        return ()
    return _ranked(_weights(kind, text), _THIN)


def is_asserted(text: str) -> bool:
    """True if the error is a failed tf.debugging check in the program, which only its author can explain."""
    return any(word in text for word in _OWN)


def is_corrected(text: str) -> bool:
    """True if Python suggests a similar name, so that the unknown one is probably a typo."""
    return CORRECTED in text


def likely_of_library(text: str, importing: bool = False) -> tuple[Likeness, ...]:
    """Return the pages most similar to a plain Python error raised by TensorFlow or Keras itself, perhaps on import."""
    weights = _weights(kind_of(text), text)
    for name, weight in AT_IMPORT.items() if importing else ():
        weights[name] = weights.get(name, 0.0) + weight
    return _ranked(weights, _THIN_FOR_PYTHON)


def likely_of_check(text: str) -> tuple[Likeness, ...]:
    """Return the pages most similar to a failed check in TensorFlow's own code, for the GPU or otherwise."""
    if not _SOURCE.search(text) or _NO_THREAD in text:
        return ()
    if _GPU_SOURCE.search(text):
        return _ranked(_weights("Internal", _SOURCE.sub(" ", text)), _THIN)
    return _ranked(_weights("InvalidArgument", _SOURCE.sub(" ", text)), _THIN_FOR_PYTHON) if _CHECK in text else ()


_CHECK = "Check failed: "
_NO_THREAD = "pthread_create() failed"
"""The message printed if the system refused to start a thread. Earlier words in the line, as in
tf_data_iterator_resource, are only the name of the thread."""
_SOURCE = lazy_pattern(r"[\w./\\-]{1,200}\.(?:cc|cu|h)(?:\.cc)?:\d+")
_GPU_SOURCE = lazy_pattern(
    r"(?i)(?:gpu|cuda|cudnn|cublas|stream_executor|nvptx)[\w./\\-]{0,100}\.(?:cc|cu|h)|cuda|cudnn|cublas|gpu|stream->"
)


def kind_of(text: str) -> str:
    """Return the error's class without its suffix: "InvalidArgument". For "2 root error(s)", the first one counts."""
    found = _CLASS.match(text)
    name = found["name"] if found else ""
    for candidate in (name, *(status["status"] for status in _STATUS.finditer(text[:400]))):
        kind = _CANONICAL.get(re.sub(r"[_ ]", "", candidate).lower().removesuffix("error"))
        if kind:
            return kind
    return ""


def _weights(kind: str, text: str) -> dict[str, float]:
    weights = dict(CLASSES.get(kind, {}))
    message = _NODES.sub(" ", text)
    for name, weight in (*_by_words(_PATH.sub(" ", message)), *_by_operation(kind, text), *_by_path(message)):
        weights[name] = weights.get(name, 0.0) + weight
    return weights


def _by_words(message: str) -> Iterator[tuple[str, float]]:
    for table, first in ((WORDS, _FIRST_WORD), (COMMON_WORDS, _COMMON_WORD)):
        for name, pattern in table.items():
            found = {match.lower() for match in _compiled(pattern).findall(message)}
            if found:
                yield name, first + _NEXT_WORD * (min(len(found), _MOST_WORDS) - 1)


def _by_operation(kind: str, text: str) -> Iterator[tuple[str, float]]:
    nodes = {(m["node"] or m["old"] or m["op"]).rpartition("/")[2].rstrip("0123456789_") for m in _NODE.finditer(text)}
    for name, pattern in OPERATIONS.items():
        if (name not in _ON_GPU or kind in _BY_LIBRARY) and any(compiled(pattern).fullmatch(node) for node in nodes):
            yield name, _DECODER if any(node.startswith("Decode") for node in nodes) else _OPERATION


def _by_path(message: str) -> Iterator[tuple[str, float]]:
    paths = " ".join(_PATH.findall(message))
    for name, pattern in PATHS.items():
        if paths and compiled(pattern).search(paths):
            yield name, _FIRST_WORD
            return


def _ranked(weights: Mapping[str, float], thin: float) -> tuple[Likeness, ...]:
    ranked = sorted(weights.items(), key=lambda item: -item[1])[:MOST]
    best = ranked[0][1] if ranked else 0.0
    if best < thin:
        return ()
    kept = (item for item in ranked if item[1] >= _NEIGHBOUR * best)
    return tuple(
        Likeness(name, round(min(SUREST, weight) * (0.6 if place else 1), 2))
        for place, (name, weight) in enumerate(kept)
    )


@cache
def _compiled(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z0-9])(?:{words})(?![A-Za-z0-9])", re.IGNORECASE)
