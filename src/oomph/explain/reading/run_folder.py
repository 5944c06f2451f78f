"""Recognises run folders of oomph."""

from __future__ import annotations

from pathlib import Path


def is_run(directory: Path) -> bool:
    """True if this directory was written by `oomph run`."""
    return (directory / "run.json").is_file() or (directory / "journal").is_dir()
