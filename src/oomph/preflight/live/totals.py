"""Statistics of one part over all of the data, batch by batch: what is kept does not grow with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from oomph.preflight.facts.data import CLASSES, DataSample
from oomph.preflight.live.statistics import WIDEST

_MOST_FEATURES = 4096
Array = np.ndarray[Any, Any]


_CHUNK = 4096
"""The number of rows to look at together."""


def totals_of(array: Array) -> Totals:
    """The totals of an array."""
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
        """Take in the next batch, with the samples in its first dimension."""
        rows = int(array.shape[0]) if array.ndim else 0
        if rows and array.size and array.dtype.kind in "biuf":
            self._add_values(array, rows)
        self._rows += rows

    def merged(self, sample: DataSample) -> DataSample:
        """The statistics of a sample, replaced by those of all data where these are known."""
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
