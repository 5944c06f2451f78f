"""Checks a training in the script's process, for `oomph check` and `oomph run --check`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oomph.cli import examining
from oomph.errors import ExamineError

if TYPE_CHECKING:
    from oomph.preflight.document import Checked
    from oomph.reach.request import ReachRequest

_EXAMINER = "oomph.preflight.live.examine:examine"


def request_for(
    words: Sequence[str], python: str | None, fit: int = 1, *, full: bool = False, tune: bool = False
) -> ReachRequest:
    """The request for a script.

    Args:
        words: the script and its arguments.
        python: the Python that the user names.
        fit: the number of the training.
        full: whether to read all of the data.
        tune: whether to try changes of the pipeline.

    Raises:
        UsageError: the script cannot be reached.
    """
    from oomph.planning.device import counting_environ, device_of, pool_of

    device = pool_of(os.environ) or device_of(None, os.environ, lambda text: None)
    arguments = {"full": full, "tune": tune, "device": device}
    return examining.request_with(
        "check", words, python, arguments, fit, _EXAMINER, counting_environ() if device else {}
    )


def checked(request: ReachRequest) -> tuple[dict[str, Any], Checked]:
    """Run the script up to its training and check it: as a document, and as values. Raises ExamineError."""
    from oomph.preflight.document import checked_of

    found = examining.examined(request, "check", "checked")
    try:
        return dict(found.document), checked_of(found.document)
    except ValueError as error:
        raise ExamineError(f"the findings at {found.training.site} cannot be read: {error}") from error
