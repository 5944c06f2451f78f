"""CUDA_VISIBLE_DEVICES hides GPUs, or does not mean what it seems to."""

from oomph.doctor.check import Check, Finding, failed, noted, passed, skipped, warned
from oomph.doctor.commands import export
from oomph.doctor.snapshot import NvmlDevice, Snapshot
from oomph.explain.catalogue.fault import Remedy

_UNSET = Remedy("Show all GPUs", "unset CUDA_VISIBLE_DEVICES")


def _look(snapshot: Snapshot) -> Finding:
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    if not snapshot.gpu_wanted:
        return skipped("no NVIDIA GPU")
    if value is None:
        return _order(snapshot, "all GPUs are visible")
    if hides_all(snapshot):
        return warned(
            "driver-missing",
            f"CUDA_VISIBLE_DEVICES={value!r} hides every GPU: training runs on the CPU.",
            _UNSET,
        )
    entries = value.split(",")
    devices = snapshot.nvml.devices
    for place, entry in enumerate(entries):
        wrong = _wrong(entry, devices, entries[:place])
        if wrong:
            return _cut(value, entries, place, wrong, devices)
    return _order(snapshot, f"CUDA_VISIBLE_DEVICES={value}")


def hides_all(snapshot: Snapshot) -> bool:
    """Whether the variable hides every GPU."""
    return snapshot.environment.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1", "NoDevFiles")


def _wrong(entry: str, devices: tuple[NvmlDevice, ...], before: list[str]) -> str:
    """What is wrong with one entry, by NVIDIA's rules; empty when it names one device."""
    bare = entry.strip()
    if not bare:
        return "an empty entry"
    if bare in (each.strip() for each in before):
        return f"{bare} twice"
    if bare.startswith("MIG-"):
        return ""
    if bare.startswith("GPU-"):
        matching = [device for device in devices if (device.uuid or "").startswith(bare)]
        if not devices or len(matching) == 1:
            return ""
        return f"{bare} matches no GPU here" if not matching else f"{bare} matches {len(matching)} GPUs"
    if not bare.lstrip("-").isdigit():
        return f"{bare} is neither a number nor a UUID"
    if int(bare) < 0 or (devices and int(bare) >= len(devices)):
        return f"there is no GPU {bare}" + (f" among {len(devices)}" if devices else "")
    return ""


def _cut(value: str, entries: list[str], place: int, wrong: str, devices: tuple[NvmlDevice, ...]) -> Finding:
    """CUDA takes the entries before the first wrong one, and none after it."""
    text = f"CUDA_VISIBLE_DEVICES={value!r}: {wrong}."
    if wrong.endswith(" twice"):
        return failed(
            "driver-missing", f"{text} CUDA then shows no GPU at all.", Remedy("Name each once", _once(entries))
        )
    numbers = ",".join(str(device.index) for device in devices)
    all_of_them = (Remedy("Name those that exist", export("CUDA_VISIBLE_DEVICES", numbers)),) if numbers else ()
    if place == 0:
        return failed("driver-missing", f"{text} CUDA stops there and shows no GPU at all.", _UNSET, *all_of_them)
    kept = ",".join(entry.strip() for entry in entries[:place])
    keep = Remedy("Write it as CUDA reads it, if that is what you want", export("CUDA_VISIBLE_DEVICES", kept))
    return warned("driver-missing", f"{text} CUDA stops there and shows only {kept}.", keep, *all_of_them)


def _once(entries: list[str]) -> str:
    return export("CUDA_VISIBLE_DEVICES", ",".join(dict.fromkeys(entry.strip() for entry in entries)))


def _order(snapshot: Snapshot, text: str) -> Finding:
    """CUDA numbers the fastest GPU first by default; nvidia-smi numbers by PCI bus."""
    names = {device.name for device in snapshot.nvml.devices}
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES", "")
    if len(names) > 1 and value[:1].isdigit() and snapshot.environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        by_bus = Remedy("Number them as nvidia-smi does", "export CUDA_DEVICE_ORDER=PCI_BUS_ID")
        return noted(f"{text}: the GPUs differ, and CUDA numbers the fastest first, nvidia-smi by PCI bus", by_bus)
    return passed(text)


CHECK = Check(
    code="DOC401",
    name="cuda-visible-devices",
    why="CUDA reads the list up to the first entry that it does not understand, and silently ignores the rest.",
    look=_look,
    faults=("driver-missing",),
    source="CUDA C++ Programming Guide, CUDA_VISIBLE_DEVICES",
)
