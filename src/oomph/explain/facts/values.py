"""Reads values that decide between causes: shapes that do not go together, and the first bytes of files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from oomph.explain.facts.fact import DataRanOut, FileFormat, FileHead, ShapePair
from oomph.files.patterns import lazy_pattern

_SHAPE = r"[\[(](?P<{name}>(?:\?|None|\d{{1,9}})(?:, ?(?:\?|None|\d{{1,9}})){{0,7}},?|)[\])]"
_FIRST, _SECOND = _SHAPE.format(name="first"), _SHAPE.format(name="second")
_OF_LAST_AXIS = "axis -1"
"""The words of a layer that has weights for so many features, whatever the number of axes."""
# Each sign has the word without which its pattern cannot match.
_PAIRS = (
    ("vs", lazy_pattern(rf"{_FIRST} ?vs\.? ?{_SECOND}")),
    ("incompatible", lazy_pattern(rf"[Ss]hapes? {_FIRST} and {_SECOND} (?:are|must)")),
    ("incompatible", lazy_pattern(rf"expected shape={_FIRST}, found shape={_SECOND}")),
    ("match", lazy_pattern(rf"[Ss]hapes? {_FIRST} (?:and|does not match|must match|!=) {_SECOND}")),
    ("same shape", lazy_pattern(rf"Received: ?(?:target|y_true)\.shape={_FIRST}, (?:output|y_pred)\.shape={_SECOND}")),
    ("incompatible shape", lazy_pattern(rf"Expected shape {_FIRST}, but input has incompatible shape {_SECOND}")),
    ("Received shapes", lazy_pattern(rf"Received shapes {_FIRST} and {_SECOND}")),
    ("shape", lazy_pattern(rf"expected [\w-]{{1,80}} to have shape {_FIRST} but got array with shape {_SECOND}")),
    ("reshape", lazy_pattern(rf"cannot reshape array of size \d+ into shape {_FIRST}(?P<second>)")),
    (
        _OF_LAST_AXIS,
        lazy_pattern(rf"axis -1 of input shape to have value (?P<first>\d+),? but received input with shape {_SECOND}"),
    ),
    ("logits", lazy_pattern(rf"logits_size={_FIRST} labels_size={_SECOND}")),
    ("matching shapes except", lazy_pattern(rf"Received: input_shape=\[{_FIRST}, {_SECOND}[\],]")),
    ("broadcast", lazy_pattern(rf"(?:shapes?|from shape) {_FIRST} (?:into shape )?{_SECOND}")),
)
_UNKNOWN = ("?", "None")


class _Head(NamedTuple):
    format: FileFormat
    pattern: re.Pattern[str]


# The first bytes as TensorFlow prints them, escaped, after "got:" or "Unknown image file format" and the like.
_HEADS = (
    _Head("webp", lazy_pattern(r"RIFF.{0,24}WEBP")),
    _Head("png", lazy_pattern(r"(?:\\x89|\\211|\x89)PNG")),
    _Head("jpeg", lazy_pattern(r"\\xff\\xd8\\xff|\\377\\330\\377|JFIF|Exif\\0")),
    _Head("gif", lazy_pattern(r"GIF8[79]a")),
    _Head("html", lazy_pattern(r"(?i)<!doctype html|<html\b")),
    _Head("git-lfs pointer", lazy_pattern(r"version https://git-lfs")),
    _Head("gzip", lazy_pattern(r"\\x1f\\x8b|\\037\\213")),
    _Head("zip", lazy_pattern(r"PK\\x03\\x04|PK\\003\\004")),
    _Head("hdf5", lazy_pattern(r"(?:\\x89|\\211)HDF")),
)
_SAYS_HEAD = lazy_pattern(r"(?i)\b(?:got|begins? with|starts? with|first bytes|header|signature|contents?|magic)\b")


def shapes_in(text: str, line: int | None) -> Iterator[ShapePair]:
    """Yield the pairs of shapes that a line says do not go together."""
    for word, pattern in _PAIRS:
        if word in text:
            for found in pattern.finditer(text):
                if found["second"]:
                    first = found["first"] if word != _OF_LAST_AXIS else f"None, {found['first']}"
                    yield ShapePair(_axes(first), _axes(found["second"]), line)


def file_head_in(text: str, line: int | None) -> FileHead | None:
    """Return the format of the file whose first bytes a line quotes, or None if it quotes none."""
    if _SAYS_HEAD.search(text) is None:
        return None
    return next((FileHead(each.format, line) for each in _HEADS if each.pattern.search(text)), None)


_RAN_OUT = lazy_pattern(r"ran out of data.{0,200}\(in this case, (?P<batches>\d{1,9}) batches\)")
_STEPS = lazy_pattern(r"(?<![\d/])(?P<done>\d{1,9})/(?P<all>\d{1,9})(?=\x1b\[0m| \S{0,8}[\[━])")


def ran_out_in(text: str, line: int | None, before: str) -> DataRanOut | None:
    """Return the end of data that a line reports, with what the progress bar `before` it shows; None if it does not."""
    found = _RAN_OUT.search(text)
    if found is None:
        return None
    steps = next(reversed([*_STEPS.finditer(f"{before}\n{text[: found.start()]}")]), None)
    epoch_is_done = steps is not None and steps["done"] == steps["all"]
    return DataRanOut(int(found["batches"]), "validation data" if epoch_is_done else None, line)


def _axes(shape: str) -> tuple[int | None, ...]:
    axes = [axis.strip() for axis in shape.split(",") if axis.strip()]
    return tuple(None if axis in _UNKNOWN else int(axis) for axis in axes)
