"""oomph explain RUN --decisions: recomputes the decisions of a run, and shows why each was taken."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from oomph.cli import sources
from oomph.cli.output import width, write, write_json
from oomph.errors import ExamineError
from oomph.explain.reading.file import is_run
from oomph.terminal.wrapping import reflowed


def explain_decisions(args: argparse.Namespace) -> int:
    """Recompute the decisions in the journal. With --exit-code, returns 1 if any differs from the recorded one."""
    from oomph.journal.journal import read_journal
    from oomph.run.directory.recorded_story import why_nothing_is_told
    from oomph.run.policy import decisions

    path = Path(args.target or "")
    sources.check_may_be_entered(path)
    if not os.path.isdir(path) or not is_run(path):
        raise ExamineError(f"{args.target} is not an oomph run directory: only a run has decisions")
    events = read_journal(path)
    if not events:
        raise ExamineError(why_nothing_is_told(path))
    found = decisions.replay(events)
    sources.tell_what_is_missing(path)
    if args.json:
        write_json(decisions.as_document(found))
    else:
        write(reflowed(decisions.as_text(found, args.target), width()))
    return 1 if args.exit_code and not all(decision.reproduced for decision in found) else 0
