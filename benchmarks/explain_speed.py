"""Speed and memory of `oomph explain`: `python benchmarks/explain_speed.py [--gigabytes 5]`.

Each kind of log is written into a pipe, so nothing is stored on a disk. CPU time is that of the `oomph explain`
process; memory is its largest resident size. The figures in docs/measurements.md come from here.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from oomph.explain.catalogue.catalogue import load

LOGS = Path(__file__).parents[1] / "tests/logs"
BAR = b"".join(
    b"\x1b[1m%d/1875\x1b[0m [==============>...............] - ETA: 12s - loss: 0.%04d - accuracy: 0.91\r" % (i, i)
    for i in range(1875)
)
LINE = b"2024-01-01 10:00:00,123 INFO trainer: worker 12 did step 1234 in 0.123 s, loss 0.1234 lr 0.001 norm 1.23\n"
WARNING = b"W0000 00:00:1795237229.78 742 a.cc:1] Local rendezvous is aborting with status: OUT_OF_RANGE: x\n"
DOCKER = b'{"log":"INFO step 1234 loss 0.1234 lr 0.001\\n","stream":"stderr","time":"2024-01-01T00:00:00.000000000Z"}\n'
ERROR = b"W0000 00:00:1795237229.04 889 a.cc:1] OP_REQUIRES failed at tile_ops.cc:201 : RESOURCE_EXHAUSTED: x\n"
CHUNK = b"2022-10-10 10:10:10.000003: I tensorflow/bfc_allocator.cc:1083] Free  at 7f0020000000 of size 805 next 3\n"


def mixed() -> bytes:
    """Every log of tests/logs and every example of a page, with fifty lines of training before each."""
    logs = [path.read_bytes() for path in sorted(LOGS.rglob("*.log"))]
    return b"".join(LINE * 50 + log + b"\n" for log in [*logs, *(fault.example.encode() for fault in load())])


KINDS = {
    "progress bars": b"Epoch 1/10\n" + BAR + b"\n",
    "plain lines": LINE * 1000,
    "a warning in ten lines": (LINE * 9 + WARNING) * 200,
    "a failure in every line": ERROR * 1000,
    "lines of JSON": DOCKER * 1000,
    "allocator dumps only": (LOGS / "eager_fill.log").read_bytes() * 5,
    "chunks of one dump": CHUNK * 1000,
    "mixed failures": mixed(),
}


def measure(block: bytes, size: int) -> tuple[float, float]:
    """Megabytes read per second of CPU time, and the largest resident size in MB."""
    read, write = os.pipe()
    explain = [sys.executable, "-m", "oomph", "explain", "-", "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(explain, stdin=read, stdout=subprocess.DEVNULL) as child:
        os.close(read)
        written = 0
        with os.fdopen(write, "wb") as pipe:
            while written < size:
                written += pipe.write(block)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert child.returncode == 0, child.returncode
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return written / 1e6 / seconds, after.ru_maxrss / 1024


def main() -> None:
    """Print one row for each kind of log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=0.2, help="size of each log")
    parser.add_argument("--kind", choices=KINDS, help="only this one")
    args = parser.parse_args()
    for kind, block in KINDS.items():
        if args.kind in (None, kind):
            started = time.monotonic()
            speed, memory = measure(block, int(args.gigabytes * 1e9))
            print(f"{kind:24} {speed:6.1f} MB/s  {memory:5.0f} MB  {time.monotonic() - started:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
