"""Reads summary.json of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oomph.files.opening import read_own


def read_summary(run_dir: Path) -> dict[str, Any]:
    """The summary of the run; empty if there is none that can be read."""
    try:
        document = json.loads(read_own(run_dir, "summary.json"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
