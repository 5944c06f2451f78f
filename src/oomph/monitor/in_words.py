"""A finding in words, for a terminal and a journal. Pure."""

from __future__ import annotations

from typing import Any

from oomph.explain.catalogue.catalogue import find
from oomph.monitor.finding import Finding


def in_words(finding: Finding) -> str:
    """The finding in words, with its name and remedy."""
    page, remedy = find(finding.fault), remedy_of(finding)
    name = finding.fault if page is None else f"{page.name}, {page.code}"
    return f"{finding.subject}: {finding.message} ({name})" + (f". {remedy}" if remedy else "")


def remedy_of(finding: Finding) -> str:
    """The finding's own remedy, or the first of its page."""
    page = find(finding.fault)
    if finding.remedy or page is None or not page.remedies:
        return finding.remedy
    return page.remedies[0].filled({}).text


def as_data(finding: Finding) -> dict[str, Any]:
    """The finding as JSON values, for a program that reads it."""
    page = find(finding.fault)
    return {
        "fault": finding.fault,
        "code": "" if page is None else page.code,
        "subject": finding.subject,
        "kind": finding.kind,
        "message": finding.message,
        "severity": finding.severity,
        "remedy": remedy_of(finding),
        "figures": dict(finding.evidence),
    }
