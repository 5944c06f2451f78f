"""Reports which records `--skip-corrupt` left out, after a fit and when the script exits.

TensorFlow writes a line to stderr for each element that it leaves out, but does not mention the file. If there are such
lines, or if the script hides them, the data is read again, for at most a minute.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any
from weakref import WeakSet

from oomph.hooks import skip_corrupt
from oomph.journal.events import RecordsLeftOut
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.elements import corrupt_records
from oomph.protocol.reasons import records_left_out
from oomph.script.session import Session

_SECONDS = 60.0
_SECONDS_OF_THE_SUPERVISOR = 0.3
"""The maximum time, in seconds, for stderr to reach the run's log."""
_MARK = b"ignore_errors_dataset_op"
_MOST_RECORDED = 1000
_HIDES_WARNINGS = 2
"""The lowest TF_CPP_MIN_LOG_LEVEL that hides TensorFlow's warnings."""


class LeftOut:
    """Reports the records left out in this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._searched: WeakSet[Any] = WeakSet()
        atexit.register(self._tell_at_exit)

    def tell(self) -> None:
        """Report the records left out by the stages that have not been searched yet."""
        self._tell(_was_told(self._session))

    def _tell_at_exit(self) -> None:
        """Report at exit on pipelines used outside fit, except after Ctrl-C, so that nobody has to wait."""
        if getattr(sys, "last_type", None) is not KeyboardInterrupt:
            self._tell(bool(_was_told(self._session)))

    def _tell(self, told: bool | None) -> None:
        new = [each for each in skip_corrupt.guarded if each not in self._searched]
        session = self._session
        if told is False or not new or not session.is_owner_now():
            return
        self._searched.update(new)
        why = "to identify the records that were left out" if told else "to see whether records were left out"
        session.say(f"reading the data again {why}, for at most {_SECONDS:.0f} s")
        until = time.monotonic() + _SECONDS
        stages = (below for each in new for below in TENSORFLOW.dataset_inputs.call(each))
        with skip_corrupt.paused():
            records = [*dict.fromkeys(itertools.islice(corrupt_records(stages, _SECONDS), _MOST_RECORDED))]
        if told or records:
            complete = time.monotonic() < until
            session.journal.write(RecordsLeftOut(records=records, complete=complete))
            session.say(str(records_left_out(records, complete)))


def _was_told(session: Session) -> bool | None:
    """True if TensorFlow logged that it left out an element; None if unknown."""
    hidden = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")
    if (hidden.isdigit() and int(hidden) >= _HIDES_WARNINGS) or session.run_dir is None:
        return None
    sys.stderr.flush()
    time.sleep(_SECONDS_OF_THE_SUPERVISOR)
    try:
        return _MARK in Path(session.run_dir, "stderr", f"{session.handover.attempt}.log").read_bytes()
    except OSError:
        return None
