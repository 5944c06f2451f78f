"""The result of a run in words: what its weights are worth. Pure."""

from __future__ import annotations

from oomph.run.report.labels import NOT_EQUAL, REPLAYED, STARTED_OVER, meaning
from oomph.run.report.remedies import remedies
from oomph.run.report.summary import Summary


def result_in_words(summary: Summary, most_reasons: int | None = None) -> str:
    """The label and its reasons; empty unless the script trained and finished."""
    if not summary.steps or summary.exit_code != 0:
        return ""
    if "nan-loss" in summary.faults:
        return "not finite: the weights hold NaN or infinity, or held them during training"
    label = meaning(summary.exactness, summary.steps_repeated, summary.reasons)
    told = summary.reasons[:most_reasons]
    more = len(summary.reasons) - len(told)
    return "; ".join((label, *map(str, told), *([f"and {more} more"] if more else [])))


def improvement(summary: Summary) -> str:
    """The one change that gives a better result; empty where there is no result, or nothing helps."""
    if not result_in_words(summary) or summary.exactness not in (NOT_EQUAL, STARTED_OVER, REPLAYED):
        return ""
    if summary.exactness == STARTED_OVER and not summary.reasons:
        return ""
    return remedies(summary.exactness, summary.reasons)[0].text
