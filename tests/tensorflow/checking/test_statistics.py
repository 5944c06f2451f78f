"""Statistics of a sample of values; totals over batches agree with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oomph.preflight.facts.data import CLASSES
from oomph.preflight.live.statistics import Totals, classes_of, same_rows, sample_of, totals_of

OF_TOTALS = (
    *("rows", "minimum", "maximum", "nan_rows", "first_nan", "infinite_rows", "is_integral", "zero_one"),
    "counts",
)
FLOATS = st.floats(width=32) | st.integers(-3, 3).map(float)


def test_nan_rows_are_counted_and_excluded_from_other_statistics():
    sample = sample_of(np.array([[1, 2], [np.nan, 3], [np.inf, np.nan]], "float32"))
    assert (sample.nan_rows, sample.first_nan, sample.infinite_rows) == (2, 1, 1)
    assert (sample.minimum, sample.maximum, sample.mean) == (1, 3, 2)


def test_statistics_of_text_contain_only_the_row_count():
    sample = sample_of(np.array(["a", "b"]))
    assert (sample.rows, sample.minimum, sample.counts) == (2, None, {})


def test_labels_are_counted_with_their_longest_run_and_number_of_changes():
    sample = sample_of(np.array([0, 0, 0, 1, 2, 2]), is_target=True)
    assert sample.classes == {0: 3, 1: 1, 2: 2}
    assert (sample.longest_run, sample.changes) == (3, 2)


def test_one_hot_rows_are_counted_as_classes():
    sample = sample_of(np.eye(3)[[0, 2, 2]], is_target=True)
    assert sample.classes == {0: 1, 2: 2}
    assert sample.row_sums == (1, 1)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[0.2, 0.8]]),
        np.array([[1, 1], [0, 1]]),
        np.array([0.5, 1]),
        np.array([1.0, np.nan]),
        np.zeros((2, 3, 4)),
        np.array(["a"]),
        np.array([]),
    ],
)
def test_rows_that_are_not_one_hot_are_not_treated_as_classes(rows):
    assert classes_of(rows) is None


def test_more_values_than_classes_are_not_counted():
    assert sample_of(np.arange(CLASSES)).counts
    assert not sample_of(np.arange(CLASSES + 1)).counts


def test_constant_features_and_features_that_reveal_the_target_are_found():
    rng = np.random.default_rng(0)
    target = rng.normal(size=50)
    columns = np.stack([np.full(50, 3.0), rng.normal(size=50), 7 - 2 * target], axis=1)
    features = sample_of(columns, target).features
    assert features is not None
    assert features.constant == (0,)
    assert features.like_target == (2,)


def test_feature_close_to_the_target_does_not_reveal_it():
    rng = np.random.default_rng(0)
    target = rng.normal(size=500)
    features = sample_of(target[:, None] + rng.normal(size=(500, 1)) / 20, target).features
    assert features is not None
    assert features.like_target == ()


def test_rows_count_as_duplicates_only_if_equal_in_every_part():
    x, y = np.array([[1, 2], [1, 2], [3, 4], [1, 2]]), np.array([0, 0, 1, 1])
    assert same_rows({"x": x, "y": y})[0] == 1
    assert same_rows({"x": x})[0] == 2
    assert same_rows({})[0] == 0


@settings(max_examples=200, deadline=None)
@given(arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=6), elements=FLOATS), st.integers(1, 4))
def test_batch_totals_match_the_whole_array(array, batch):
    totals = Totals()
    for start in range(0, len(array), batch):
        totals.add(array[start : start + batch])
    whole = sample_of(array)
    merged = totals.merged(sample_of(array[:1]))
    if np.isfinite(array[:1]).any() and whole.is_integral == sample_of(array[:1]).is_integral:
        assert {name: getattr(merged, name) for name in OF_TOTALS} == {n: getattr(whole, n) for n in OF_TOTALS}


def test_feature_is_constant_only_if_it_is_constant_in_all_merged_data():
    array = np.zeros((10, 2), "float32")
    array[9, 1] = 1
    head = sample_of(array[:5])
    assert head.features is not None
    assert head.features.constant == (0, 1)
    merged = totals_of(array).merged(head)
    assert merged.features is not None
    assert merged.features.constant == (0,)
    assert merged.rows == 10


def test_outlier_is_recorded_alongside_the_usual_values():
    column = np.random.default_rng(0).normal(size=(1000, 2)).astype("float32")
    column[17, 1] = -9999
    features = sample_of(column).features
    assert features is not None
    assert features.largest[1] == 9999
    assert features.usual[1] < 3
    assert features.usual[0] == features.largest[0]  # no outliers there
