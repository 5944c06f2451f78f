from __future__ import annotations

from oomph.journal.journal import Event
from oomph.protocol.reasons import left_out
from oomph.run.report.labels import NOT_EQUAL, label_of


def _event(**data: object) -> Event:
    return Event.named("records-left-out", data, 1, 0, "script", 1, 0.0)


def test_left_out_records_are_not_reported_if_there_are_none():
    assert left_out([]) is None
    assert left_out([Event.named("fit-started", {}, 1, 0, "script", 1, 0.0)]) is None


def test_records_left_out_in_several_fits_are_listed_once():
    events = [_event(records=["a", "b"], complete=True), _event(records=["b", "c"], complete=True)]
    assert str(left_out(events)) == "left out 3 corrupt records: a, b, c"


def test_long_list_of_left_out_records_is_abbreviated():
    records = [f"{number}.jpg" for number in range(7)]
    assert str(left_out([_event(records=records, complete=True)])).endswith("4.jpg and 2 more")


def test_incomplete_search_reports_at_least_the_records_found():
    assert str(left_out([_event(records=["a"], complete=False)])) == "left out at least 1 corrupt record: a"


def test_left_out_records_without_names_are_reported():
    assert (
        str(left_out([_event(records=[], complete=True)])) == "left out corrupt records whose names could not be found"
    )


def test_left_out_records_make_the_run_not_equal():
    found = label_of(
        [Event.named("fit-started", {"guard": "exact"}, 1, 0, "script", 1, 0.0), _event(records=["a"], complete=True)],
        0,
    )
    assert found.label == NOT_EQUAL
    assert [*map(str, found.reasons)] == ["left out 1 corrupt record: a"]
