"""What the detectors find in the samples that are shown, for as long as it is there."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.monitor.detection import Detection
from oomph.monitor.sample import Sample
from oomph.watch.incidents import Incident, incident_of


class Present:
    """Gives each new sample to the detectors, and remembers what they have told."""

    def __init__(self) -> None:
        self._detection = Detection()
        self._newest = float("-inf")
        self._told: dict[tuple[str, str, str], Incident] = {}

    def take(self, samples: Sequence[Sample]) -> list[Incident]:
        """The findings that are present after these samples, of which the older ones are known."""
        for sample in samples:
            if sample.time <= self._newest:
                continue
            self._newest = sample.time
            changes = self._detection.take(sample)
            for finding in (*changes.told, *changes.returned):
                incident = incident_of(finding, sample.time)
                self._told[incident.key] = incident
        active = set(self._detection.active)
        self._told = {key: incident for key, incident in self._told.items() if key in active}
        return list(self._told.values())
