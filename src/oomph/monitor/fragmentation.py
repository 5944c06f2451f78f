"""Detects free GPU memory split into pieces that are too small, from TensorFlow's report of a failed allocation. Pure.

`oomph run` looks for this when training continues after a failed allocation, in micro-batches or after a restart.
Nothing that can be read earlier reveals it: TensorFlow reports the bytes in use and their peak, but not the largest
free block (`LargestFreeBlock` in its statistics is always 0), on which fragmentation depends. The memory that NVML
reports beyond the bytes in use is free memory in the pool, fragmented or not. The report of a failed allocation, in
contrast, lists every free block. A finding requires at least as much free memory as was requested, but no block of that
size.
"""

from __future__ import annotations

from io import BytesIO

from oomph.explain.evidence import memory
from oomph.explain.evidence.memory import MemoryMap
from oomph.explain.reading.log import Words, read_log
from oomph.monitor.finding import Finding
from oomph.monitor.outlook import amount

FAULTS = ("device-oom-fragmentation",)
_WORDS = Words(frozenset(word.encode() for word in memory.MAP_WORDS), condense=memory.condense)


def of_report(report: bytes) -> Finding | None:
    """Return the finding for the last failed allocation in a report, or None if it failed for a different reason."""
    last = MemoryMap()
    for fact in read_log(BytesIO(report), words=_WORDS):
        last.see(fact)
    if last.conclusion() is None:
        return None
    free, largest, requested = last.free, last.largest, last.requested
    return Finding(
        fault=FAULTS[0],
        subject="TensorFlow's memory",
        message=f"{amount(requested)} did not fit, although {amount(free)} was free: the largest piece was "
        f"{amount(largest)}",
        evidence={
            "requested_bytes": requested,
            "free_bytes": free,
            "largest_free_bytes": largest,
            "fragmentation": round(1 - largest / free, 3),
        },
        remedy="Set TF_GPU_ALLOCATOR=cuda_malloc_async: CUDA's own allocator can combine scattered pieces",
    )
