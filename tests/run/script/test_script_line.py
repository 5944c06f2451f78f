"""Which part of a traceback belongs to the script."""

from __future__ import annotations

import os
import traceback

from oomph.files.user_code import PACKAGE
from oomph.script.script_line import without_ours

_CALLS = "def call(function):\n    return function()\n"


def _called_by(path: str):
    names: dict = {}
    exec(compile(_CALLS, path, "exec"), names)
    return names["call"]


def test_interrupt_shows_no_oomph_frame():
    ours, theirs = _called_by(os.path.join(PACKAGE, "fit.py")), _called_by(PACKAGE + "-trainings/train.py")

    def interrupted():
        raise KeyboardInterrupt

    try:
        try:
            ours(lambda: theirs(lambda: ours(interrupted)))
        except KeyboardInterrupt as error:
            error.__traceback__ = without_ours(error.__traceback__)
            raise
    except KeyboardInterrupt as error:
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert frames == ["test_interrupt_shows_no_oomph_frame", "<lambda>", "call", "<lambda>", "interrupted"]
    assert not any(file.startswith(PACKAGE + os.sep) for file in files)


def test_missing_traceback_stays_none():
    assert without_ours(None) is None
