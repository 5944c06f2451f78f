"""Too little host memory for the GPUs."""

from oomph.doctor.check import Check, Finding, passed, skipped, warned
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_LEAST_BYTES, _SHARE = 2 << 30, 4
"""Less than this, or than a quarter of the memory of the GPUs, is too little."""
_MORE = {
    "kubernetes": "resources: {limits: {memory: 32Gi}}",
    "docker": "docker run --memory=32g ...",
    "podman": "podman run --memory=32g ...",
}


def _look(snapshot: Snapshot) -> Finding:
    host = snapshot.host
    limits = [number for number in (host.memory_bytes, host.memory_limit_bytes) if number]
    if not limits:
        return skipped("the amount of host memory is unknown")
    has = min(limits)
    gpu = sum(device.memory_bytes for device in snapshot.driver.devices)
    whose = "the control group allows" if has == host.memory_limit_bytes else "the machine has"
    if has < max(_LEAST_BYTES, gpu // _SHARE):
        text = (
            f"{whose} {_gib(has)} of memory, for {_gib(gpu)} on its GPUs." if gpu else f"{whose} {_gib(has)} of memory."
        )
        more = (
            Remedy("Give it more", _MORE.get(host.container, ""))
            if has == host.memory_limit_bytes
            else Remedy("Keep data sets out of memory: no Dataset.cache() without a file")
        )
        return warned("host-oom", text[0].upper() + text[1:], more)
    return passed(f"{whose} {_gib(has)} of memory")


def _gib(number: int) -> str:
    return f"{number / 2**30:.1f} GiB"


CHECK = Check(
    code="DOC601",
    name="host-memory",
    why=(
        "Input pipelines and pinned copies use host memory; over a container's limit, the kernel silently kills the"
        " process."
    ),
    look=_look,
    faults=("host-oom",),
    needs=("host",),
    source="cgroups(7)",
)
