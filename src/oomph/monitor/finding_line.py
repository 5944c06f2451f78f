"""A finding as one line of JSON: how the sampler tells its parent. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, get_args, get_type_hints

from oomph.monitor.finding import Finding

_TEXTS = ("fault", "subject", "message", "remedy", "kind")
_SEVERITIES = get_args(get_type_hints(Finding)["severity"])


def to_line(finding: Finding) -> str:
    """The line, with its line end. What JSON cannot hold becomes text."""
    return json.dumps({**asdict(finding), "evidence": dict(finding.evidence)}, default=str) + "\n"


def from_document(document: Any) -> Finding | None:
    """The finding in what was parsed from a line; None if it is something else."""
    if not isinstance(document, dict) or not isinstance(document.get("evidence"), dict):
        return None
    if not all(isinstance(document.get(name), str) for name in _TEXTS) or document.get("severity") not in _SEVERITIES:
        return None
    return Finding(**{name: document[name] for name in (*_TEXTS, "severity", "evidence")})
