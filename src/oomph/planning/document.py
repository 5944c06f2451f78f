"""A plan as JSON, and back: what `--json` prints, and what the script's process sends. Pure; all sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from oomph.planning.estimate import Device, Estimate, Fitting, Interval, Item, Layer, MemoryMoment, Plan, Saver
from oomph.planning.replicas import PlannedReplicas

SCHEMA = 1


def as_document(plan: Plan) -> dict[str, Any]:
    """The plan as a JSON document."""
    return {
        "schema": SCHEMA,
        "engine": plan.engine,
        "accuracy": plan.accuracy,
        "subject": plan.subject,
        "place": plan.place,
        "batch": plan.batch,
        "device": None if plan.device is None else asdict(plan.device),
        "max_batch": plan.max_batch,
        "micro_batch": plan.micro_batch,
        "estimates": [{"batch": each.batch, **asdict(each.peak), "fits": each.fits.value} for each in plan.estimates],
        "curve": [{"batch": batch, **asdict(peak)} for batch, peak in plan.curve],
        "items": [_item(item) for item in plan.items],
        "layers": [asdict(layer) for layer in plan.layers],
        "peak_operation": plan.peak_operation,
        "timeline": [asdict(moment) for moment in plan.timeline],
        "savers": [_saver(saver) for saver in plan.savers],
        "notes": list(plan.notes),
        "warnings": list(plan.warnings),
        "replicas": plan.replicas,
        "samples_per_replica": PlannedReplicas(plan.replicas).share(plan.batch),
        "why_open": plan.why_open,
        "measured": list(plan.measured),
    }


def as_document_without(reason: str) -> dict[str, Any]:
    """The JSON document for a training that could not be planned, with the reason."""
    return {"schema": SCHEMA, "engine": None, "reason": reason, "estimates": [], "max_batch": None, "savers": []}


def plan_of(document: Mapping[str, Any]) -> Plan:
    """The plan in a JSON document; raises ValueError if the document has another schema."""
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}")
        return _plan_of(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a plan: {type(error).__name__}: {error}") from error


def _plan_of(document: Mapping[str, Any]) -> Plan:
    device = document["device"]
    return Plan(
        engine=document["engine"],
        accuracy=document["accuracy"],
        subject=document["subject"],
        place=document["place"],
        batch=document["batch"],
        estimates=tuple(Estimate(row["batch"], _interval(row), Fitting(row["fits"])) for row in document["estimates"]),
        curve=tuple((row["batch"], _interval(row)) for row in document["curve"]),
        device=None if device is None else Device(**device),
        max_batch=document["max_batch"],
        micro_batch=document["micro_batch"],
        items=tuple(
            Item(row["name"], _interval(row), row["basis"], row["source"]) for row in document["items"]
        ),
        layers=tuple(Layer(**row) for row in document["layers"]),
        peak_operation=document["peak_operation"],
        timeline=tuple(MemoryMoment(**row) for row in document["timeline"]),
        savers=tuple(
            Saver(
                row["name"], None if row["expected"] is None else _interval(row), row["changes"], row["line"],
                row["basis"],
            )
            for row in document["savers"]
        ),
        notes=tuple(document["notes"]),
        warnings=tuple(document["warnings"]),
        replicas=document["replicas"],
        why_open=document["why_open"],
        measured=tuple(document["measured"]),
    )  # fmt: skip


def _item(item: Item) -> dict[str, Any]:
    return {"name": item.name, **asdict(item.size), "basis": item.basis, "source": item.source}


def _saver(saver: Saver) -> dict[str, Any]:
    peak = {"low": None, "expected": None, "high": None} if saver.peak is None else asdict(saver.peak)
    return {"name": saver.name, **peak, "changes": saver.changes, "line": saver.line, "basis": saver.basis}


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(row["low"], row["expected"], row["high"])
