"""Collects the facts of a log in one pass over its lines, in constant memory. Pure."""

from __future__ import annotations

from collections import deque

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.facts import machine, versions
from oomph.explain.facts.fact import DataRanOut, FileHead, LogFacts, ShapePair
from oomph.explain.facts.machine import MachineReader
from oomph.explain.facts.program import ProgramReader
from oomph.explain.facts.values import file_head_in, ran_out_in, shapes_in
from oomph.explain.facts.versions import VersionReader

WORDS = versions.WORDS | machine.WORDS
_LONGEST = 1000
"""The number of characters of a line to read. What follows in a longer one is data."""
_LAST = 300
"""The number of characters of the line before to keep, where a progress bar may stand."""
_MOST = 8
"""The maximum number of pairs of shapes, and of file heads, to keep: the last ones are nearest to the error."""


class FactReader:
    """Reads pieces of evidence in order."""

    def __init__(self) -> None:
        self._versions, self._machine, self._program = VersionReader(), MachineReader(), ProgramReader()
        self._shapes, self._heads = deque[ShapePair](maxlen=_MOST), deque[FileHead](maxlen=_MOST)
        self._ran_out: DataRanOut | None = None
        self._before = ""

    def see(self, evidence: Evidence) -> None:
        """Process the next log line, or the message of an exception."""
        for line in evidence.text.split("\n"):
            text = line[:_LONGEST]
            self._versions.see(text, evidence.line)
            self._machine.see(text, evidence.line)
            self._program.see(text, evidence.line)
            self._shapes.extend(shapes_in(text, evidence.line))
            if (head := file_head_in(text, evidence.line)) is not None:
                self._heads.append(head)
            if "ran out of data" in text and self._ran_out is None:
                self._ran_out = ran_out_in(text, evidence.line, self._before)
            self._before = text[-_LAST:]

    def facts(self) -> LogFacts:
        """Return all facts of the lines read so far."""
        program = self._program
        return LogFacts(
            versions=self._versions.found,
            gpus=self._versions.gpus,
            installed_by=self._machine.managers,
            phase=program.phase,
            own_place=program.own_place,
            library_place=program.library_place,
            failing_package=program.failing_package,
            packages=self._versions.involved,
            missing_modules=tuple(program.missing.values()),
            set_variables=self._machine.set_variables,
            ran_out=self._ran_out,
            node=program.node,
            shapes=tuple(self._shapes),
            file_heads=tuple(self._heads),
            failed=self._machine.failed,
        )
