"""Looks up GPUs and their memory by loose names, and parses sizes. Pure, apart from reading `gpus.toml` once.

"4090", "rtx4090" and "NVIDIA GeForce RTX 4090" are the same GPU. "A100" is ambiguous: it has 40 or 80 GiB.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomph.errors import UsageError

GIB = 2**30
_FILE = Path(__file__).with_name("gpus.toml")
_KEPT_BY_ECC = 1 / 16
_MOST_GIB = 512
"""The largest bare number that is read as GiB of memory. A larger number is read as the name of a GPU."""
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(?:(g|t|m)(?:i?b)?)\Z", re.IGNORECASE)
_AMOUNT = re.compile(r"(?P<sign>-?)(?P<number>\d{1,9}(?:\.\d{0,9})?)\s*(?P<unit>(?:[kmgt]i?b?|b)?)\Z", re.IGNORECASE)
_UNITS = {"m": 2**20, "g": GIB, "t": 2**40}
_SIZE_IN_NAME = re.compile(r"(\d{1,4})\s*gi?b\b")
_WITHOUT_MEANING = re.compile(
    r"\b(?:nvidia|geforce|tesla|quadro|graphics|gpu|generation|edition|sxm\d?|pcie?|hbm\d?e?|colab|kaggle|with|max-?q|design)\b"
)
_RTX = re.compile(r"\A(?:rtx|gtx|gt)(?=[a-z]?\d)")


class GpuModel(NamedTuple):
    """One GPU model and its memory."""

    name: str
    gib: float
    """The memory in GiB, as stated by the vendor."""
    capability: str
    """The compute capability, such as "8.9"."""
    sources: tuple[str, ...]
    """The pages that the row was compared with: the compute capability with the first, the memory with the last."""
    ecc: bool = False
    """True if error correction, which uses a sixteenth of the memory, is on by default."""
    shared: bool = False
    """True if the CPU and the GPU share the same memory."""
    note: str = ""
    also: tuple[str, ...] = ()
    """Other names for this GPU."""

    @property
    def memory_bytes(self) -> int:
        """The maximum memory, in bytes, that the driver may report."""
        return int(self.gib * GIB * (1 - _KEPT_BY_ECC if self.ecc else 1))

    @property
    def shown(self) -> str:
        """The name with the memory: "Tesla T4 (15 of 16 GiB, the rest is for error correction)"."""
        if self.ecc:
            return f"{self.name} ({self.memory_bytes / GIB:g} of {self.gib:g} GiB, the rest is for error correction)"
        return f"{self.name} ({self.gib:g} GiB{', shared with the CPU' if self.shared else ''})"


@cache
def gpus() -> tuple[GpuModel, ...]:
    """Return all GPUs that oomph knows."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(_model(name, row, tables["sources"]) for name, row in tables["gpus"].items())


def _model(name: str, row: dict[str, Any], sources: dict[str, str]) -> GpuModel:
    read = tuple(sources[key] for key in row["sources"])
    return GpuModel(name, **{**row, "sources": read, "also": tuple(row.get("also", ()))})


def find_gpu(text: str) -> GpuModel:
    """Find the GPU with this name. Raises UsageError if it is unknown, or shared by GPUs with different memory."""
    whole = _compact(text.lower()).removeprefix("nvidia")
    for gpu in gpus():
        if whole in map(_compact, map(str.lower, (gpu.name, *gpu.also))):
            return gpu
    wanted, size = _key(text)
    found = [(known_size, gpu) for gpu in gpus() for key, known_size in (_key(gpu.name),) if key == wanted]
    if not found:
        raise UsageError(_unknown(text, wanted))
    fitting = [gpu for known, gpu in found if size in (known, round(gpu.gib))]
    if not fitting:
        sizes = sorted({gpu.gib for _, gpu in found})
        raise UsageError(_wrong_size(found[0][1], size, sizes) if size else _which(text, [gpu for _, gpu in found]))
    return fitting[0]


def capability_of(name: str) -> str:
    """Return the compute capability for a GPU name as drivers report it; empty if the name is not in the list."""
    wanted, _ = _key(name)
    found = {gpu.capability for gpu in gpus() if any(_key(known)[0] == wanted for known in (gpu.name, *gpu.also))}
    return found.pop() if len(found) == 1 else ""


def is_same(one: str, other: str) -> bool:
    """True if two names refer to the same kind of GPU, such as "RTX 4090" and "NVIDIA GeForce RTX 4090"."""
    bare = [_compact(name.lower()).removeprefix("nvidia") for name in (one, other)]
    if bare[0] == bare[1]:
        return True
    try:
        return find_gpu(one).name == find_gpu(other).name
    except UsageError:
        return False


def size_of(text: str) -> int | None:
    """Convert a size such as "24GiB", "24GB" or "16g" to bytes, in powers of 1024. Returns None for anything else."""
    found = _SIZE.match(text.strip())
    return None if found is None or not float(found[1]) else int(float(found[1]) * _UNITS[found[2].lower()])


def _key(text: str) -> tuple[str, int | None]:
    """Return the part of a GPU's name that identifies it, and the memory size in the name, in GiB, or None."""
    lower = re.sub(r"[-_/,()]", " ", text.lower())
    found = _SIZE_IN_NAME.search(lower)
    if found is not None:
        lower = f"{lower[: found.start()]} {lower[found.end() :]}"
    bare = _compact(_WITHOUT_MEANING.sub(" ", lower))
    return _RTX.sub("", bare), None if found is None else int(found[1])


def _compact(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text)


def _which(text: str, found: Sequence[GpuModel]) -> str:
    return f"{text} may be {' or '.join(gpu.name for gpu in found)}: which one?"


def _wrong_size(gpu: GpuModel, size: int, known: Sequence[float]) -> str:
    return f"{gpu.name} has {' or '.join(f'{gib:g}' for gib in known)} GiB, not {size}"


def _unknown(text: str, wanted: str) -> str:
    """Return the error message for a word that is not the name of a GPU."""
    amount = _AMOUNT.match(text.strip())
    is_bare = amount is not None and not amount["sign"] and not amount["unit"]
    if amount is None or (is_bare and float(amount["number"]) > _MOST_GIB):
        return f"unknown GPU {text!r}{_nearest(wanted)}: specify a known GPU, or an amount of memory such as 24GiB"
    if is_bare and float(amount["number"]):
        return f"{text} is not a GPU name: for an amount of memory, write {text.strip()}GiB"
    return f"--gpu expects the name of a GPU or an amount of memory above 0, such as 24GiB, not {text}"


def _nearest(wanted: str) -> str:
    """Suggest known names for a mistyped one, as a question; empty if none is similar."""
    keys = {_key(gpu.name)[0]: gpu.name for gpu in reversed(gpus())}
    close = difflib.get_close_matches(wanted, list(keys), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(keys[key] for key in close)}?)" if close else ""
