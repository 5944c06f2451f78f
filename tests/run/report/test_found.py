"""The monitor's findings in a run: start, end and duration of each, from new, old and truncated journals."""

from __future__ import annotations

import json
from typing import Any

from oomph.journal.journal import Event
from oomph.run.report.account import account
from oomph.run.report.found import each_once, findings_of
from oomph.run.report.summary import summarise

HOT = {"fault": "thermal-throttle", "code": "HWD802", "subject": "GPU 0", "kind": "heat"}


def found(at: float, attempt: int = 1, **data: Any) -> Event:
    return Event.named(
        "finding", {**HOT, "message": f"since {at:.0f}", "severity": "warning", **data}, attempt, time=at
    )


def ended(at: float, until: float, attempt: int = 1, **data: Any) -> Event:
    return Event.named("finding-ended", {**HOT, "until": until, **data}, attempt, time=at)


def over(at: float, attempt: int = 1) -> Event:
    return Event.named("attempt-ended", {"returncode": 0, "seconds": at}, attempt, time=at)


def spans(*events: Event) -> list[tuple[float, float | None, float]]:
    return [(each.begin, each.end, each.seconds) for each in findings_of(events)]


def test_finding_lasts_from_its_start_to_its_end():
    assert spans(found(100), ended(200, until=140)) == [(100, 140, 40)]


def test_open_finding_ends_with_its_attempt():
    assert spans(found(100)) == [(100, None, 0)]
    assert spans(found(100), over(170)) == [(100, 170, 70)]
    assert spans(found(100), Event.named("attempt-started", {}, 2, time=180)) == [(100, 180, 80)], "killed with oomph"


def test_finding_that_recurs_soon_continues_without_the_gap():
    back = found(300, again=True, severity="notice")
    assert spans(found(100), ended(200, until=140), back) == [(100, None, 40)]
    assert spans(found(100), ended(200, until=140), back, ended(1000, until=310)) == [(100, 310, 50)]
    (each,) = findings_of([found(100), ended(200, until=140), back])
    assert (each.severity, each.message, each.since) == ("warning", "since 300", 300)


def test_finding_that_recurs_later_counts_as_a_second_finding():
    assert spans(found(100), ended(200, until=140), found(2000), ended(2100, until=2005)) == [
        (100, 140, 40),
        (2000, 2005, 5),
    ]


def test_finding_that_becomes_more_severe_remains_one_finding():
    (each,) = findings_of([found(100, severity="notice"), found(150, severity="critical"), ended(300, until=200)])
    assert (each.begin, each.end, each.seconds, each.severity) == (100, 200, 100, "critical")


def test_findings_of_different_kinds_or_attempts_stay_separate():
    events = [found(100), found(110, kind="power brake"), ended(200, until=120), found(300, attempt=2)]
    assert spans(*events) == [(100, 120, 20), (110, 300, 190), (300, None, 0)]
    assert [(each.kind, each.begin, each.seconds) for each in each_once(findings_of([*events, over(330, 2)]))] == [
        ("heat", 100, 50),
        ("power brake", 110, 190),
    ]


def test_damaged_and_unmatched_events_do_not_cause_an_error():
    assert findings_of([ended(5, until=4)]) == []
    assert spans(found(100), ended(200, until="nan")) == [(100, 200, 100)]  # type: ignore[arg-type]
    (each,) = findings_of([Event.named("finding", {"fault": 3, "severity": "loud"})])
    assert (each.fault, each.severity) == ("", "warning")
    assert spans(found(100), ended(90, until=80)) == [(100, 80, 0)], "the clock was set back"


def test_summary_lists_each_finding_once_without_notices():
    events = [found(100), ended(200, until=140), found(2000), found(2001, subject="GPU 1", severity="notice")]
    summary = summarise([*events, over(2010)], 0)
    (each,) = json.loads(summary.to_json())["findings"]
    assert (each["fault"], each["code"], each["subject"]) == ("thermal-throttle", "HWD802", "GPU 0")
    assert (each["begin"], each["end"], each["seconds"]) == (100, 2010, 50)


def test_findings_that_differ_only_in_kind_are_merged_in_the_last_line():
    summary = summarise([found(100), found(110, kind="power brake"), over(200)], 0)
    assert account(summary, None)[-1] == "found in the run: thermal-throttle (GPU 0)"
