"""Fragmentation of TensorFlow's memory, from the report that its allocator prints when a request fails. Pure.

It is no detector, because nothing that can be read while a script trains tells it. TensorFlow gives the bytes in use
and their peak, but not the largest free block (`LargestFreeBlock` in its statistics is always 0), on which
fragmentation depends. What NVML shows beyond the bytes in use is free memory of the pool, cut into pieces or not: the
pool is taken at once by default, and grows by doubling otherwise, so that twice the peak is normal. The report of a
failed request lists every free block. A run that goes on in micro-batches after it has that report in its stderr.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.faults.evidence.evidence import Evidence
from oomph.faults.evidence.memory_map import MemoryMap
from oomph.monitor.finding import Finding
from oomph.monitor.outlook import amount

FAULT, SUBJECT = "device-oom-fragmentation", "TensorFlow's memory"


def of_report(facts: Iterable[Evidence]) -> Finding | None:
    """What the last report in a log says; None if it is about something else than fragmentation.

    Args:
        facts: the lines, as `oomph.faults.reading.log.read_log` gives them.
    """
    report = MemoryMap()
    for fact in facts:
        report.see(fact)
    if report.conclusion() is None:
        return None
    free, largest, requested = report.free, report.largest, report.requested
    return Finding(
        fault=FAULT,
        subject=SUBJECT,
        message=f"{amount(requested)} did not fit, although {amount(free)} were free: "
        f"the largest piece had {amount(largest)}",
        evidence={
            "requested_bytes": requested,
            "free_bytes": free,
            "largest_free_bytes": largest,
            "fragmentation": round(1 - largest / free, 3),
        },
    )
