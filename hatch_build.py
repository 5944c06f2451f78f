"""Writes front.jsonl when oomph is built or installed: the front matter of the fault pages, to be read fast."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class FrontMatter(BuildHookInterface):
    """Runs before a wheel, or an editable installation, is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file into the source, where Git ignores it, and add it to what is packed."""
        sys.path.insert(0, str(Path(self.root) / "src"))
        from oomph.explain.catalogue import catalogue

        catalogue.write_front()
        build_data["artifacts"].append("src/oomph/explain/catalogue/front.jsonl")
