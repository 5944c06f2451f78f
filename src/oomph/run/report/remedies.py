"""Changes to a script that give a resumed run a better label. Pure.

Each reason has its remedy in `oomph.protocol.reason_table`. A label without reasons has its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oomph.protocol.reason_table import FITTING, GENERAL, RESUMABLE
from oomph.protocol.reasons import Reason
from oomph.run.report.labels import (
    APPROXIMATE,
    EXACT,
    FAILED,
    NOT_EQUAL,
    REPLAYED,
    STARTED_OVER,
    UNGUARDED,
    UNVERIFIED,
    VERIFIED,
)

BEST = (EXACT, VERIFIED)
"""Labels that need no remedy."""
_OF_LABELS = {
    UNVERIFIED: "nothing to change in the script: too few comparable steps lay between the checkpoint and the fault",
    REPLAYED: "draw random numbers of the data pipeline with tf.random.stateless_uniform and the like; where its "
    "buffers were too large to be saved, use smaller ones in shuffle() and prefetch()",
    APPROXIMATE: FITTING,
    NOT_EQUAL: GENERAL,
    STARTED_OVER: "nothing to change in the script: there was nothing to resume from",
    UNGUARDED: RESUMABLE,
    FAILED: "fix what ended the script: oomph explain names it",
}


class ReasonRemedy(NamedTuple):
    """A reason in words, and its remedy."""

    reason: str
    text: str


def remedies(label: str, reasons: Iterable[Reason]) -> list[ReasonRemedy]:
    """The remedies for a label: one for each reason, and one for all reasons with the same remedy.

    Args:
        label: the label of a run.
        reasons: why it is not better; without any, the label's own remedy applies.
    """
    if label in BEST:
        return []
    found: dict[str, ReasonRemedy] = {}
    for reason in reasons:
        found.setdefault(reason.remedy, ReasonRemedy(str(reason), reason.remedy))
    return list(found.values()) or [ReasonRemedy("", _OF_LABELS[label])]
