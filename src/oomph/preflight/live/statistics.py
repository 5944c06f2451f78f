"""Computes statistics of one part, from a sample or batch by batch from all of the data. Pure: arrays in, facts out.

Memory use does not grow with the size of the data, even when all of it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from oomph.preflight.facts.data import CLASSES, DataSample, Features
from oomph.script.quiet import without_warnings

_MOST_FEATURES = 4096
_OVERLAP = 0.5
_FAR = 10.0
"""A value more than this many standard deviations from 0 may be an outlier."""
_DETERMINES = 0.99999
"""A feature whose correlation with the target exceeds this value is considered equivalent to the target."""
WIDEST = 1e9
"""The widest range of values for which the occurrences of each value are counted."""
_DIFFERENT_ROWS = 20_000
"""The maximum number of rows to compare with one another."""

Array = np.ndarray[Any, Any]
_CHUNK = 4096
"""The number of rows to process at a time."""


def sample_of(array: Array, target: Array | None = None, is_whole: bool = False, is_target: bool = False) -> DataSample:
    """Return the statistics of an array whose first dimension counts samples.

    Args:
        array: numbers; for text, only the rows are counted.
        target: for features, one number per sample: its class, or the value to predict.
        is_whole: True if there are no other samples.
        is_target: True if the array is the target.
    """
    rows = int(array.shape[0]) if array.ndim else 0
    if array.dtype.kind not in "biuf" or not array.size:
        return DataSample(rows, is_whole)
    values: Array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32, copy=False)
    finite_mask = np.isfinite(values)
    flat = values[finite_mask] if not finite_mask.all() else values.reshape(-1)
    nan = np.isnan(values).reshape(rows, -1).any(axis=1) if not finite_mask.all() else np.zeros(rows, bool)
    infinite = np.isinf(values).reshape(rows, -1).any(axis=1) if not finite_mask.all() else nan
    is_integral = bool(flat.size) and bool(np.all(flat == np.floor(flat)))
    classes = classes_of(array) if is_target else None
    return DataSample(
        rows=rows,
        is_whole=is_whole,
        minimum=float(flat.min()) if flat.size else None,
        maximum=float(flat.max()) if flat.size else None,
        mean=float(flat.mean(dtype=np.float64)) if flat.size else None,
        deviation=float(flat.std(dtype=np.float64)) if flat.size else None,
        nan_rows=int(nan.sum()),
        first_nan=int(nan.argmax()) if nan.any() else None,
        infinite_rows=int(infinite.sum()),
        is_integral=is_integral,
        zero_share=float(np.mean(flat == 0)) if flat.size else 0.0,
        counts=_counts(flat) if is_integral else {},
        classes={} if classes is None else {int(each): count for each, count in _counts(classes).items()},
        zero_one=bool(flat.size) and bool(np.all((flat == 0) | (flat == 1))),
        row_sums=_row_sums(values) if array.ndim >= 2 and array.shape[-1] > 1 else None,
        longest_run=_longest_run(classes) if classes is not None else 0,
        zero_rows=int((values.reshape(rows, -1) == 0).all(axis=1).sum()),
        changes=int(np.sum(classes[1:] != classes[:-1])) if classes is not None else None,
        features=None if is_target else _features(values, target),
    )


def classes_of(array: Array) -> Array | None:
    """Return the class of each sample, from integers or one-hot rows, or None for anything else."""
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    if array.ndim == 2 and array.shape[1] > 1:
        if not np.all((array == 0) | (array == 1)) or not np.all(array.sum(axis=1) == 1):
            return None
        classes: Array = array.argmax(axis=1)
        return classes
    flat = array.reshape(-1) if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1) else None
    if flat is None or not np.all(np.isfinite(flat)) or not np.all(flat == np.floor(flat)):
        return None
    numbers: Array = flat.astype(np.int64)
    return numbers


def same_rows(parts: Mapping[str, Array]) -> tuple[int, frozenset[int]]:
    """Count the samples that duplicate an earlier one in all parts, and hash each distinct sample."""
    arrays = [array for array in parts.values() if array.ndim and array.dtype.kind in "biufSU"]
    if not arrays or any(not array.size for array in arrays):
        return 0, frozenset()
    rows = min(min(array.shape[0] for array in arrays), _DIFFERENT_ROWS)
    lists = [np.ascontiguousarray(array[:rows]).reshape(rows, -1) for array in arrays]
    hashes = [hash(tuple(each[row].tobytes() for each in lists)) for row in range(rows)]
    return rows - len(set(hashes)), frozenset(hashes)


def _counts(flat: Array) -> dict[float, int]:
    if flat.size > 50_000_000 or float(flat.max()) - float(flat.min()) > WIDEST:
        return {}
    values, counts = np.unique(flat, return_counts=True)
    if values.size > CLASSES:
        return {}
    return {float(value): int(count) for value, count in zip(values, counts, strict=True)}


def _row_sums(values: Array) -> tuple[float, float] | None:
    with np.errstate(all="ignore"):
        sums = values.sum(axis=-1, dtype=np.float64)
    finite = sums[~np.isnan(sums)]
    return (float(finite.min()), float(finite.max())) if finite.size else None


def _longest_run(classes: Array) -> int:
    edges: Array = np.flatnonzero(classes[1:] != classes[:-1]) + 1
    return int(np.diff(np.concatenate(([0], edges, [classes.size]))).max())


def _features(values: Array, target: Array | None) -> Features | None:
    if values.ndim < 2 or values.shape[0] < 2:
        return None
    columns = values.reshape(-1, values.shape[-1])[:, :_MOST_FEATURES]
    with np.errstate(all="ignore"), without_warnings():  # for columns without any finite number
        clean = np.where(np.isfinite(columns), columns, np.nan)
        low, high = np.nanmin(clean, axis=0), np.nanmax(clean, axis=0)
        deviations = np.nanstd(clean, axis=0, dtype=np.float64)
    missing = np.isnan(columns).any(axis=0)
    largest = np.nan_to_num(np.maximum(np.abs(low), np.abs(high)))
    return Features(
        deviations=tuple(map(float, np.nan_to_num(deviations))),
        largest=tuple(map(float, largest)),
        usual=tuple(_usual(clean[:, index], each, deviations[index]) for index, each in enumerate(largest)),
        constant=tuple(map(int, np.flatnonzero((low == high) & ~missing))),
        missing=tuple(map(int, np.flatnonzero(missing))),
        like_target=_like_target(values.reshape(len(values), -1), target) if _may_hold(values, target) else (),
    )


def _usual(column: Array, largest: float, deviation: float) -> float:
    """Return the 99th percentile of the absolute values if the largest may be an outlier, and the largest otherwise."""
    if not largest > _FAR * deviation > 0:
        return float(largest)
    return float(np.nanpercentile(np.abs(column), 99))


def _may_hold(values: Array, target: Array | None) -> bool:
    """True if some value in each sample may be its target: in a table, or in windows over a series of fractions."""
    if values.ndim == 2:
        return bool(values.shape[1] <= _MOST_FEATURES)
    is_series = target is not None and target.dtype.kind == "f" and bool(np.any(target != np.floor(target)))
    return bool(values.ndim == 3 and is_series and values[0].size <= _MOST_FEATURES) and _overlap(values)


def _overlap(windows: Array) -> bool:
    """True if the windows overlap and come from one series."""
    if windows.shape[1] < 2:
        return False
    return bool(np.mean(np.isin(windows[:, 1], windows[:, 0])) > _OVERLAP)


def _like_target(columns: Array, target: Array | None) -> tuple[int, ...]:
    """Return the indices of the columns that a linear function maps to the target."""
    if target is None or target.shape[0] != columns.shape[0] or target.shape[0] < 20:
        return ()
    wanted = target.astype(np.float64) - float(np.mean(target))
    size = float(np.sqrt(np.sum(wanted**2)))
    if not np.isfinite(size) or size == 0:
        return ()
    centred = columns.astype(np.float64) - columns.mean(axis=0, dtype=np.float64)
    with np.errstate(all="ignore"):
        correlation = np.abs(wanted @ centred) / (size * np.sqrt(np.sum(centred**2, axis=0)))
    return tuple(map(int, np.flatnonzero(np.nan_to_num(correlation) > _DETERMINES)))


def totals_of(array: Array) -> Totals:
    """Return the running statistics of an array, computed chunk by chunk."""
    totals = Totals()
    for start in range(0, array.shape[0] if array.ndim else 0, _CHUNK):
        totals.add(array[start : start + _CHUNK])
    return totals


class Totals:
    """Running statistics of one part."""

    def __init__(self) -> None:
        self._rows = self._nan_rows = self._infinite_rows = 0
        self._first_nan: int | None = None
        self._low, self._high = np.inf, -np.inf
        self._is_integral = self._zero_one = True
        self._counts: dict[float, int] | None = {}
        self._features: tuple[Array, Array] | None = None
        self._has_features = True

    def add(self, array: Array) -> None:
        """Add the next batch, whose first dimension counts samples."""
        rows = int(array.shape[0]) if array.ndim else 0
        if rows and array.size and array.dtype.kind in "biuf":
            self._add_values(array, rows)
        self._rows += rows

    def merged(self, sample: DataSample) -> DataSample:
        """Return a sample's statistics, replacing values with the totals over all data where these are known."""
        if self._high < self._low:
            return replace(sample, rows=self._rows)
        is_wide = float(self._high) - float(self._low) > WIDEST
        counts = {} if is_wide or not self._counts or not sample.counts else self._counts
        features = sample.features
        if features is not None and self._features is not None:
            low, high = self._features
            constant = [index for index in features.constant if low[index] == high[index]]
            features = replace(features, constant=tuple(constant))
        return replace(
            sample,
            rows=self._rows,
            minimum=float(self._low),
            maximum=float(self._high),
            nan_rows=self._nan_rows,
            first_nan=self._first_nan,
            infinite_rows=self._infinite_rows,
            is_integral=self._is_integral,
            zero_one=self._zero_one,
            counts=counts if self._is_integral else {},
            classes={int(value): count for value, count in counts.items()} if sample.classes and counts else {},
            features=features,
        )

    def _add_values(self, array: Array, rows: int) -> None:
        finite = np.isfinite(array) if array.dtype.kind == "f" else None
        values = array if finite is None or finite.all() else array[finite]
        if finite is not None and values is not array:
            self._add_not_finite(array, rows)
        if not values.size:
            return
        self._low, self._high = min(self._low, values.min()), max(self._high, values.max())
        self._is_integral = self._is_integral and (values.dtype.kind != "f" or bool(np.all(values == np.floor(values))))
        self._zero_one = self._zero_one and bool(np.all((values == 0) | (values == 1)))
        self._count(values)
        self._add_features(array)

    def _add_not_finite(self, array: Array, rows: int) -> None:
        nan = np.isnan(array).reshape(rows, -1).any(axis=1)
        if nan.any() and self._first_nan is None:
            self._first_nan = self._rows + int(nan.argmax())
        self._nan_rows += int(nan.sum())
        self._infinite_rows += int(np.isinf(array).reshape(rows, -1).any(axis=1).sum())

    def _count(self, values: Array) -> None:
        if self._counts is None or not self._is_integral:
            self._counts = None
            return
        for value, count in zip(*np.unique(values, return_counts=True), strict=True):
            self._counts[float(value)] = self._counts.get(float(value), 0) + int(count)
            if len(self._counts) > CLASSES:
                self._counts = None
                return

    def _add_features(self, array: Array) -> None:
        if array.ndim < 2 or not self._has_features:
            return
        columns = array.reshape(-1, array.shape[-1])[:, :_MOST_FEATURES]
        low, high = columns.min(axis=0), columns.max(axis=0)
        if self._features is not None and self._features[0].shape != low.shape:
            self._features, self._has_features = None, False  # elements of different sizes
        elif self._features is None:
            self._features = low, high
        else:
            self._features = np.minimum(self._features[0], low), np.maximum(self._features[1], high)
