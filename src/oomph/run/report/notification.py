"""Words the notifications of `oomph run --notify`: what happened, as a message and as a JSON document. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from oomph.redaction.redaction import redacted_data
from oomph.run.report.summary import Summary
from oomph.terminal.message import shown

Occasion = Literal["finished", "failed", "stopped", "gave-up", "preempted", "hang", "finding"]
SCHEMA = 1


class Notification(NamedTuple):
    """Something that the user wants to know at once."""

    occasion: Occasion
    text: str
    details: Mapping[str, Any] = {}
    """The same for programs."""


def of_the_end(occasion: Occasion, account: Sequence[str], summary: Summary) -> Notification:
    """Return the notification that a run has ended.

    Args:
        account: the closing lines of the run.
    """
    lines = [" ".join(line.split()) for line in account]
    text = lines[0] if len(lines) == 1 else "\n".join([occasion.replace("-", " "), *lines])
    return Notification(occasion, text, {"exit_code": summary.exit_code, "summary": summary.as_document()})


def document_of(
    notification: Notification, command: str, run_dir: str | None, host: str, time: float
) -> dict[str, Any]:
    """Return a notification as a JSON document, without secrets and without anything that could steer a terminal."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "event": notification.occasion,
        "text": shown(f"{command} on {host}: {notification.text}"),
        "command": command,
        "run": run_dir,
        "host": host,
        "time": time,
        **notification.details,
    }
    return dict(redacted_data(document))
