"""Detects a worker that the others wait for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.pace import PaceReading
from oomph.monitor.straggler import Straggler, find_straggler
from oomph.monitor.window import Window
from oomph.terminal.amounts import as_step_time

_SECONDS = 300.0
_DATA_REMEDY = "Look at this worker's input pipeline, and at the disk or the network that its data comes from"
_OWN_REMEDY = (
    "Compare this worker's machine with the others: other programs, temperature and clocks; and what the script does"
    " there alone"
)


@detector("straggler", every=30.0)
def late_worker(window: Window) -> Iterable[Finding]:
    """A worker of several that is ready later than the others in every step.

    Each worker measures the time of its steps, and the part of them from the moment when its gradients are ready until
    those of all are added up. The rest is its own time: computing, waiting for data, the script's own code. Thresholds:
    an own time that exceeds that of the others by 10 % of the step, in 80 % of at least ten parts of the last five
    minutes, all oomph's own. Workers whose all-reduce is not measured, as in a step that XLA compiles, are not judged.
    """
    readings = defaultdict[int, list[PaceReading]](list)
    for sample in window.last(_SECONDS):
        for rank, reading in sample.paces.items():
            if not readings[rank] or reading.monotonic > readings[rank][-1].monotonic:
                readings[rank].append(reading)
    found = find_straggler(readings)
    if found is not None:
        yield Finding(
            "straggler",
            f"worker {found.rank}",
            f"{_for_the_others(found)}: {why_late(found)}",
            "warning",
            {
                "worker": found.rank,
                "wait_seconds": found.wait_seconds,
                "step_seconds": found.step_seconds,
                "data_seconds": found.data_seconds,
                "also": list(found.also),
            },
            _DATA_REMEDY if found.is_waiting_for_data else _OWN_REMEDY,
            kind="worker",
        )


def _for_the_others(found: Straggler) -> str:
    wait, step = (as_step_time(each) for each in (found.wait_seconds, found.step_seconds))
    return f"the others wait for it {wait} in every step of {step}"


def why_late(found: Straggler) -> str:
    """Say why a worker is late, as far as that is measured."""
    return "its data comes late" if found.is_waiting_for_data else "its own part takes longer"
