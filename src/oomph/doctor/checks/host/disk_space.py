"""A disk that is too full for checkpoints."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_NONE_BYTES, _LITTLE_BYTES = 100 << 20, 2 << 30


def _look(snapshot: Snapshot) -> Finding:
    free, path = snapshot.host.disk_free_bytes, snapshot.host.disk_path
    if free is None:
        return skipped("the free disk space is unknown")
    text = f"{free / 2**30:.1f} GiB are free on the disk of {path}."
    elsewhere = Remedy("Keep runs and checkpoints elsewhere", "oomph run --run-dir /path/with/room train.py")
    if free < _NONE_BYTES:
        return failed("checkpoint-failure", text, elsewhere)
    if free < _LITTLE_BYTES:
        return warned("checkpoint-failure", text, elsewhere)
    return passed(text.rstrip("."))


CHECK = Check(
    code="DOC603",
    name="disk-space",
    why="A checkpoint that cannot be written is lost work; TensorFlow's own saving fails in the middle of a file.",
    look=_look,
    faults=("checkpoint-failure",),
    needs=("host",),
    source="statvfs(3)",
)
