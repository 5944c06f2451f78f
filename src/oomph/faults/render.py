"""Diagnoses and pages as plain text for people, and as the JSON document of `oomph explain --json`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from oomph.faults.catalogue.fault import Fault, Remedy
from oomph.faults.catalogue.neighbours import neighbours
from oomph.faults.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.faults.matching.named_fault import SUSPICION, Diagnosis

SCHEMA = 1
WIDTH = 100
_PAGE_FIELDS = ("code", "name", "title", "summary", "domain", "severity", "sticky", "since", "versions")
_SHOWN = 300  # characters of a captured value; --json has all of it


def as_text(diagnoses: Sequence[Diagnosis], subject: str, state: str = "", following: str = "") -> str:
    """The faults found in `subject`: facts, causes, evidence, remedies, the next command.

    `state` follows the number of faults; `following` is a last line from the caller.
    """
    told = [d for place, d in enumerate(diagnoses) if place == 0 or d.confidence > SUSPICION]
    found = _count(len(told), "fault") if told else "no fault"
    lines = [f"{subject}: {found} found{state}"]
    for rank, diagnosis in enumerate(told, 1):
        lines += ["", *_diagnosis(rank, diagnosis)]
    if len(told) < len(diagnoses):
        lines += ["", _otherwise(told[0].fault, [d.fault for d in diagnoses if d not in told])]
    last = [_next(diagnoses)] if diagnoses or not following else []
    return "\n".join([*lines, "", *last, *([following] if following else [])]) + "\n"


def as_document(diagnoses: Sequence[Diagnosis]) -> dict[str, Any]:
    """The same for programs; its shape is a public contract."""
    return {"schema": SCHEMA, "diagnoses": [_entry(diagnosis) for diagnosis in diagnoses]}


def page_text(fault: Fault) -> str:
    """A page of the catalogue, to read in a terminal."""
    lines = [f"{_headline(fault)}: {fault.title}", fault.summary, "", f"severity   {fault.severity}"]
    lines += [f"sticky     {'yes' if fault.sticky else 'no'}", f"applies to {fault.versions}"]
    for heading, prose in fault.sections.items():
        lines += ["", heading, "-" * len(heading), prose]
        if heading == "What you can do":
            lines += [line for number, remedy in enumerate(fault.remedies, 1) for line in _advice(number, remedy)]
    return "\n".join(lines) + "\n"


def page_document(fault: Fault) -> dict[str, Any]:
    """A page of the catalogue for programs."""
    fields: dict[str, Any] = {key: getattr(fault, key) for key in _PAGE_FIELDS}
    fields["remedies"] = [_remedy(remedy) for remedy in fault.remedies]
    fields["sections"] = dict(fault.sections)
    return {"schema": SCHEMA, "fault": fields}


def _entry(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "code": diagnosis.code,
        "name": diagnosis.name,
        "role": diagnosis.role,
        "confidence": diagnosis.confidence,
        "evidence": [{"line": fact.line, "text": fact.text} for fact in diagnosis.evidence],
        "captured": dict(diagnosis.captured),
        "remedies": [_remedy(remedy) for remedy in diagnosis.remedies],
    }


def _remedy(remedy: Remedy) -> dict[str, str]:
    text = f"{remedy.text}: {remedy.command}" if remedy.command else remedy.text
    return {"text": text, "action": remedy.action} if remedy.action else {"text": text}


def _diagnosis(rank: int, diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{rank}. {_headline(diagnosis.fault)}, {diagnosis.role}, {diagnosis.confidence:.0%} sure"
    yield f"   {diagnosis.fault.summary}"
    for name, value in diagnosis.captured.items():
        yield f"     {name.replace('_', ' ') + ':':<17} {_shortened(value)}"
    yield "   evidence"
    for fact in diagnosis.evidence:
        yield f"     {_place(fact)}: {_shortened(fact.text, TEXT_LIMIT)}"
    yield "   what to do"
    for number, remedy in enumerate(diagnosis.remedies, 1):
        yield from _advice(number, remedy)


def _otherwise(first: Fault, others: Sequence[Fault]) -> str:
    """Other faults that fit the same evidence, and how to tell them apart."""
    apart = neighbours(first)
    told = (f"{_headline(fault)}: {apart.get(fault.code, fault.summary).rstrip('.')}" for fault in others)
    return textwrap.fill(f"If that does not fit: {'; '.join(told)}.", WIDTH, subsequent_indent="  ")


def _advice(number: int, remedy: Remedy) -> Iterator[str]:
    by_itself = " [oomph run does this by itself]" if remedy.action else ""
    yield textwrap.fill(
        f"{remedy.text}.{by_itself}", WIDTH, initial_indent=f"     {number}. ", subsequent_indent="        "
    )
    if remedy.command:
        yield f"          {remedy.command}"
    if remedy.changes:
        changes = f"changes: {remedy.changes}"
        yield textwrap.fill(changes, WIDTH, initial_indent="        ", subsequent_indent="        ")


def _headline(fault: Fault) -> str:
    return f"{fault.name} ({fault.code})"


def _place(fact: Evidence) -> str:
    places = [fact.origin, f"line {fact.line}" if fact.line is not None else ""]
    return ", ".join(place for place in places if place) or fact.source


def _shortened(text: str, most: int = _SHOWN) -> str:
    text = text.strip().replace("\n", " / ")
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text if len(text) <= most else text[:most] + " ..."


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _next(diagnoses: Sequence[Diagnosis]) -> str:
    if not diagnoses:
        return "Next: oomph run SCRIPT  (keeps the script alive, and keeps the evidence of a failure)"
    return f"Next: oomph explain {diagnoses[0].code}  (why it happens, how to tell it from its neighbours)"
