"""Alerts: where the findings of a training go."""

from __future__ import annotations

from collections.abc import Callable

from oomph.monitor.finding import Finding
from oomph.monitor.in_words import as_data, in_words
from oomph.monitor.live.webhook import Webhook


class Alerts:
    """Passes findings on. What fails there is told once, and never reaches the training.

    Args:
        say: prints a line.
        prints: whether findings are printed; under `oomph run` the run does that.
        alert: the user's own function.
        webhook: the user's web address.
    """

    def __init__(
        self, say: Callable[[str], object], prints: bool, alert: Callable[[Finding], object] | None, webhook: str | None
    ) -> None:
        self._say, self._prints, self._alert = say, prints, alert
        self._webhook = None if webhook is None else Webhook(webhook)
        self._told: set[str] = set()

    def take(self, finding: Finding) -> None:
        """Pass on one finding."""
        text = in_words(finding)
        if self._prints:
            self._say(text)
        if self._alert is not None:
            try:
                self._alert(finding)
            except Exception as error:
                self._tell_once(f"alert raised {type(error).__name__}: {error}; the training continues")
        if self._webhook is not None:
            problem = self._webhook.post({"text": text, **as_data(finding)})
            if problem:
                self._tell_once(f"the webhook at {self._webhook.host} was not reached: {problem}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._say(text)
