"""pandas tables: whatever a callback collected in one is back after a restart."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")


class Holder:
    """Has one value under two names."""

    def __init__(self, value):
        self.value = self.alias = value


def table():
    return pandas.DataFrame({"loss": [0.5, np.nan, 1.0], "epoch": [1, 2, 3], "name": ["a", None, "c"]})


IN_PLACE = {
    "a cell": (table, lambda t: t.iloc.__setitem__((0, 0), 9.0)),
    "a word": (table, lambda t: t.loc.__setitem__((1, "name"), "b")),
    "a row": (table, lambda t: t.loc.__setitem__(3, [0.1, 4, "d"])),
    "a row by name": (table, lambda t: t.loc.__setitem__("mean", [0.1, 4, "d"])),
    "a column": (table, lambda t: t.__setitem__("accuracy", [0.1, 0.2, 0.3])),
    "a column less": (table, lambda t: t.pop("loss")),
    "a column in between": (table, lambda t: t.insert(1, "n", [7, 8, 9])),
    "the first row of all": (lambda: pandas.DataFrame(columns=["a", "b"]), lambda t: t.loc.__setitem__(0, [1, "x"])),
    "dates": (
        lambda: pandas.DataFrame({"at": pandas.to_datetime(["2026-01-01", "2026-01-02"])}),
        lambda t: t.loc.__setitem__((0, "at"), datetime.datetime(2026, 2, 3)),
    ),
    "a series": (lambda: pandas.Series([1.0, 2.0], name="s"), lambda s: s.__setitem__(0, 5.0)),
    "a longer series": (lambda: pandas.Series([1.0, 2.0], index=["x", "y"]), lambda s: s.__setitem__("z", 5.0)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_table_changed_in_place_is_restored_in_place(resume, name):
    make, change = IN_PLACE[name]
    found = resume(lambda: Holder(make()), lambda holder: change(holder.value))
    assert found.lost == []
    assert found.changes.changed, "the change was seen"
    _assert_equal(found.resumed.value, found.killed.value)
    assert found.resumed.alias is found.resumed.value, "whoever has it sees the change"


def test_a_replaced_pandas_table_is_restored(resume):
    found = resume(lambda: Holder(table()), lambda h: setattr(h, "value", pandas.concat([h.value, table()])))
    assert found.lost == []
    _assert_equal(found.resumed.value, found.killed.value)


def test_changed_object_tables_and_large_tables_are_reported_as_lost(resume):
    made = {
        "objects": (lambda: pandas.DataFrame({"a": [[1], {2}]}), lambda t: t.at[0, "a"].append(3)),
        "large": (lambda: pandas.DataFrame({"a": np.zeros(3_000_000)}), lambda t: t.iloc.__setitem__((7, 0), 1.0)),
    }
    for make, change in made.values():
        found = resume(lambda make=make: Holder(make()), lambda holder, change=change: change(holder.value))
        assert found.lost


def _assert_equal(ours, theirs):
    same = pandas.testing.assert_frame_equal if ours.ndim == 2 else pandas.testing.assert_series_equal
    same(ours, theirs)
