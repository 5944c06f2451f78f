"""Journal events as values: frozen, named, documented."""

from __future__ import annotations

import json
import re

import pytest

from oomph.journal import docs
from oomph.journal.event import Event, event_of
from oomph.journal.events import AttemptEnded, FindingMade, Oom, Resumed, UnknownEvent
from oomph.journal.fact import _PLACES, BY_NAME

PAGE = docs.document()


def test_facts_are_frozen_and_compare_by_their_fields():
    oom = Oom(phase="compute", batch=8)
    with pytest.raises(AttributeError):
        oom.batch = 4  # type: ignore[misc]
    assert oom == Oom(batch=8, phase="compute")
    assert oom != Oom(batch=4, phase="compute")
    assert {oom, Oom(phase="compute", batch=8)} == {oom}
    assert oom.with_fields(step=3) == Oom(phase="compute", batch=8, step=3)


def test_unknown_event_field_raises_type_error():
    with pytest.raises(TypeError, match="Oom has no such fields: spam"):
        Oom(spam=1)  # type: ignore[call-arg]


def test_facts_can_be_distinguished_in_a_match_statement():
    match Event.named("resumed", {"kind": "finished", "steps": 5}).fact:
        case Resumed(kind="finished", steps=steps, fit=None):
            assert steps == 5
        case _:
            pytest.fail("not matched")


@pytest.mark.parametrize("name", BY_NAME)
def test_event_survives_a_json_round_trip(name):
    event = Event(BY_NAME[name](), 2, 0, "script", 7, 3.5)
    assert event.name == name
    assert Event.from_json(event.to_json()).to_json() == event.to_json()
    assert len(type(event.fact).defaults) <= len(_PLACES)


def test_empty_event_mapping_becomes_an_empty_json_object():
    document = json.loads(Event(FindingMade(fault="hang")).to_json())
    assert document["data"]["figures"] == {}
    assert json.loads(Event(UnknownEvent(name="later")).to_json())["data"] == {}


def test_unknown_return_code_stays_null_but_a_missing_one_is_zero():
    lost = Event(AttemptEnded(returncode=None))
    assert Event.from_json(lost.to_json()).fact.returncode is None
    assert Event.named("attempt-ended", {}).fact.returncode == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", str(2**63)])
def test_invalid_number_is_replaced_by_its_default(number):
    line = Event(AttemptEnded(steps=5, seconds=3.5)).to_json()
    assert Event.from_json(line.replace("3.5", number)).fact.seconds == 0.0
    assert Event.from_json(line.replace('"steps":5', f'"steps":{number}')).fact.steps == 0


def test_event_from_a_newer_oomph_is_kept_unchanged():
    document = {"schema": 1, "event": "later", "role": "x", "attempt": 1, "rank": 0, "sequence": 1, "time": 1.0}
    event = event_of({**document, "data": {"new": [1]}})
    assert event.fact == UnknownEvent(name="later", fields={"new": [1]})
    assert (event.name, event.data) == ("later", {"new": [1]})
    assert Event.from_json(event.to_json()) == event


def test_reference_lists_exactly_the_existing_events():
    assert {*re.findall(r"^### (.*)$", PAGE, re.M)} == {*BY_NAME}


@pytest.mark.parametrize("name", BY_NAME)
def test_reference_gives_type_and_meaning_of_every_event_field(name):
    section = PAGE.partition(f"\n### {name}\n")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\w[^|]*) \| (\S.*) \|$", section, re.M)
    assert [field for field, _, _ in rows] == [*BY_NAME[name].defaults]
    optional = {field for field, kind, _ in rows if kind.endswith(", optional")}
    assert optional == {field for field, default in BY_NAME[name].defaults.items() if default is None}


def test_reference_groups_the_events_by_who_writes_them():
    supervisor, process = PAGE.index("## From the supervisor"), PAGE.index("## From the script: the process")
    assert supervisor < PAGE.index("\n### run-started\n") < process < PAGE.index("\n### process-started\n")
