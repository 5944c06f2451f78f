"""Checks the rest of the machine: memory, shared memory and disk space."""

from __future__ import annotations

from oomph.doctor.check import DoctorFinding, check, failed, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_LEAST_MEMORY_BYTES, _SHARE_OF_GPUS = 2 << 30, 4
"""The minimum host memory in bytes, and the divisor that gives its minimum share of the GPUs' memory: a quarter."""
_MORE_MEMORY = {
    "kubernetes": "resources: {limits: {memory: 32Gi}}",
    "docker": "docker run --memory=32g ...",
    "podman": "podman run --memory=32g ...",
}


@check(
    "DOC601",
    why=(
        "Input pipelines and pinned copies use host memory; above a container's limit, the kernel silently kills the"
        " process."
    ),
    faults=("host-oom",),
    needs=("host",),
    source="cgroups(7)",
)
def host_memory(snapshot: Snapshot) -> DoctorFinding:
    """Too little host memory for the GPUs."""
    host = snapshot.host
    limits = [number for number in (host.memory_bytes, host.memory_limit_bytes) if number]
    if not limits:
        return skipped("the amount of host memory is unknown")
    has = min(limits)
    gpu = sum(device.memory_bytes for device in snapshot.driver.devices)
    whose = "the control group allows" if has == host.memory_limit_bytes else "the machine has"
    if has < max(_LEAST_MEMORY_BYTES, gpu // _SHARE_OF_GPUS):
        text = (
            f"{whose} {_gib(has)} of memory, but {_gib(gpu)} on its GPUs." if gpu else f"{whose} {_gib(has)} of memory."
        )
        more = (
            Remedy("Give it more", _MORE_MEMORY.get(host.container, ""))
            if has == host.memory_limit_bytes
            else Remedy("Keep datasets out of memory: do not use Dataset.cache() without a file")
        )
        return warned("host-oom", text[0].upper() + text[1:], more)
    return passed(f"{whose} {_gib(has)} of memory")


def _gib(number: int) -> str:
    return f"{number / 2**30:.1f} GiB"


_SHM_BYTES = 1 << 30
_LARGER_SHM = {
    "kubernetes": "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 2Gi}}]  # mounted at /dev/shm",
    "podman": "podman run --shm-size=1g ...",
}


@check(
    "DOC602",
    why='Docker gives a container 64 MiB; NCCL then fails at its first all-reduce with "unhandled system error".',
    faults=("nccl-failure",),
    needs=("host", "driver"),
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#sharing-data",
)
def shared_memory(snapshot: Snapshot) -> DoctorFinding:
    """/dev/shm is too small for NCCL between GPUs."""
    size = snapshot.host.shm_bytes
    if len(snapshot.driver.devices) < 2:
        return skipped("fewer than two GPUs")
    if size is None:
        text = "There is no /dev/shm, which NCCL needs between GPUs in one machine."
    elif size < _SHM_BYTES:
        text = f"/dev/shm has {size / 2**20:.0f} MiB; NCCL uses it to pass data between GPUs."
    else:
        return passed(f"/dev/shm has {size / 2**30:.1f} GiB")
    container = snapshot.host.container
    command = (
        _LARGER_SHM.get(container, "docker run --shm-size=1g ...")
        if container
        else "sudo mount -o remount,size=2g /dev/shm"
    )
    return warned("nccl-failure", text, Remedy("Make it larger", command))


_FULL_BYTES, _LITTLE_BYTES = 100 << 20, 2 << 30


@check(
    "DOC603",
    why="A checkpoint that cannot be written is lost work; TensorFlow's own saving fails midway through a file.",
    faults=("checkpoint-failure",),
    needs=("host",),
    source="statvfs(3)",
)
def disk_space(snapshot: Snapshot) -> DoctorFinding:
    """A disk with too little space left for checkpoints."""
    free, path = snapshot.host.disk_free_bytes, snapshot.host.disk_path
    if free is None:
        return skipped("the free disk space is unknown")
    text = f"{free / 2**30:.1f} GiB is free on the disk that contains {path}."
    elsewhere = Remedy("Keep runs and checkpoints elsewhere", "oomph run --run-dir /path/with/room train.py")
    if free < _FULL_BYTES:
        return failed("checkpoint-failure", text, elsewhere)
    if free < _LITTLE_BYTES:
        return warned("checkpoint-failure", text, elsewhere)
    return passed(text.rstrip("."))
