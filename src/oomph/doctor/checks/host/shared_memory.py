"""/dev/shm is too small for NCCL between GPUs."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_WANTED_BYTES = 1 << 30
_MORE = {
    "kubernetes": "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]  # mounted at /dev/shm",
    "podman": "podman run --shm-size=1g ...",
}


def _look(snapshot: Snapshot) -> Finding:
    size = snapshot.host.shm_bytes
    if len(snapshot.driver.devices) < 2:
        return skipped("fewer than two GPUs")
    if size is None:
        text = "There is no /dev/shm, which NCCL needs between GPUs of one machine."
    elif size < _WANTED_BYTES:
        text = f"/dev/shm has {size / 2**20:.0f} MiB; NCCL uses it to pass data between GPUs."
    else:
        return passed(f"/dev/shm has {size / 2**30:.1f} GiB")
    container = snapshot.host.container
    command = (
        _MORE.get(container, "docker run --shm-size=1g ...") if container else "sudo mount -o remount,size=2g /dev/shm"
    )
    return warned("nccl-failure", text, Remedy("Make it larger", command))


CHECK = Check(
    code="DOC602",
    name="shared-memory",
    why='Docker gives a container 64 MiB; NCCL then fails at its first all-reduce with "unhandled system error".',
    look=_look,
    faults=("nccl-failure",),
    needs=("host", "driver"),
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#sharing-data",
)
