"""Reads from two shapes why they do not go together: flattened, an axis missing, other channels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.fact import LogFacts, ShapePair
from oomph.files.patterns import lazy_pattern

_CHANNELS = {1, 3, 4}
_WITH_BATCH = 2
_SIZES = lazy_pattern(
    r"\bx'? sizes: (?P<x>\d+(?:, \d+)*)\s{0,9}'?y'? sizes: (?P<y>\d+(?:, \d+)*)\s{0,9}"
    r"(?:'?sample_weight'? sizes: (?P<weights>\d+)|\Z|[^\d, ])"
)
_IMAGES = 4
"""The number of axes of a batch of images."""


def shape_remedy(fault: str, facts: LogFacts) -> Remedy | None:
    """Return what the last pair of shapes in a log asks for, or None if its numbers do not tell."""
    if fault != "shape-mismatch":
        return None
    if text := _of_cardinality(" ".join(facts.error.message) if facts.error else ""):
        return Remedy(text, kind="data")
    if not facts.shapes:
        return None
    pair = facts.shapes[-1]
    longer, shorter = sorted((pair.first, pair.second), key=len, reverse=True)
    text = (
        _of_channels(pair) or _of_batch(pair) or _of_missing_axis(longer, shorter) or _of_same_values(longer, shorter)
    )
    return Remedy(text) if text else None


def _of_cardinality(message: str) -> str:
    found = _SIZES.search(message)
    if found is None:
        return ""
    x, y = ([int(each) for each in found[name].split(", ") if each.isdigit()] for name in ("x", "y"))
    for name, whole, parts in (("y", x, y), ("x", y, x)):
        if len(whole) == 1 and len(parts) > 1 and set(parts) == {1}:
            return (
                f"{name} is a list with one array for each sample, which Keras takes for as many inputs or outputs: "
                f"make it one array, np.array({name}) or np.concatenate({name})"
            )
    weights = found["weights"]
    if weights is not None and x == y and x != [int(weights)]:
        return (
            f"x and y have {found['x']} samples, and sample_weight {weights}: give it one weight for each sample, cut "
            f"as x and y were cut, such as by train_test_split(x, y, weights)"
        )
    return ""


def _of_batch(pair: ShapePair) -> str:
    one, other = pair.first, pair.second
    sizes = one[:1] + other[:1]
    if len(one) != len(other) or len(one) < _WITH_BATCH or one[1:] != other[1:] or None in (*sizes, *one[1:]):
        return ""
    more, fewer = max(map(int, filter(None, sizes)), default=0), min(map(int, filter(None, sizes)), default=0)
    if not fewer or more == fewer:
        return ""
    times, rest = divmod(more, fewer)
    folded = (
        f"a layer before folds {times} positions of each sample into the batch: flatten each sample by itself, "
        f"Flatten() or tf.reshape(x, [tf.shape(x)[0], -1])"
        if not rest
        else "one of the two is of another batch, or cut off: take both from the same batch (drop_remainder=True)"
    )
    return f"The other axes agree; the first one, the batch, differs, {one[0]} and {other[0]}: {folded}"


def _of_channels(pair: ShapePair) -> str:
    one, other = pair.first, pair.second
    differs = len(one) == len(other) >= _IMAGES and one[1:-1] == other[1:-1] and {one[-1], other[-1]} <= _CHANNELS
    if not differs or one[-1] == other[-1]:
        return ""
    return (
        f"The images differ only in the number of channels, {one[-1]} and {other[-1]}: read them with the model's "
        'number (channels=3 or 1, color_mode="rgb" or "grayscale")'
    )


def _of_missing_axis(longer: Sequence[int | None], shorter: Sequence[int | None]) -> str:
    if len(longer) != len(shorter) + 1:
        return ""
    if longer[-1] == 1 and _agree(longer[:-1], shorter):
        return f"{_written(shorter)} lacks the last axis of {_written(longer)}: x[..., None] adds it"
    is_sample = longer[0] in (None, 1) and None not in shorter and _agree(longer[1:], shorter)
    if is_sample or (longer[0] is None and None not in shorter and len(shorter) > 1 and longer[2:] == shorter[1:]):
        return f"{_written(shorter)} is one sample without the batch axis: add it, as in model.predict(x[None])"
    return ""


def _of_same_values(longer: Sequence[int | None], shorter: Sequence[int | None]) -> str:
    values = [[axis for axis in shape[1:] if axis is not None] for shape in (longer, shorter)]
    whole = all(len(known) == len(shape) - 1 for known, shape in zip(values, (longer, shorter), strict=True))
    if not whole or len(longer) == len(shorter) or prod(values[0]) != prod(values[1]) or prod(values[0]) < 2:
        return ""
    return (
        f"Both hold {prod(values[0])} values for each sample: flatten or reshape one to the other, Flatten() as the "
        f"first layer, or x.reshape(-1, {', '.join(map(str, values[1]))})"
    )


def _agree(one: Sequence[int | None], other: Sequence[int | None]) -> bool:
    return all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def _written(shape: Sequence[int | None]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
