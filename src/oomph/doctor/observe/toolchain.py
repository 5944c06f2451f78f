"""Finds ptxas and libdevice where XLA would find them. Looks at files only."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oomph.doctor.snapshot import Toolchain

_DATA_DIR = re.compile(r"--xla_gpu_cuda_data_dir=(\S+)")


def observe_toolchain(path: Sequence[str], environ: Mapping[str, str], root: Path = Path("/")) -> Toolchain:
    """The first ptxas and the first libdevice, in the order in which XLA looks (cuda_root_path.cc of xla)."""
    named = _DATA_DIR.search(environ.get("XLA_FLAGS", ""))
    data_dir = named[1] if named else ""
    homes = list(_homes(data_dir, path, root))
    ptxas = next((str(home / "bin/ptxas") for home in homes if (home / "bin/ptxas").is_file()), "")
    libdevice = next((str(found) for home in homes for found in (home / "nvvm/libdevice").glob("libdevice.*.bc")), "")
    on_path = shutil.which("ptxas", path=environ.get("PATH")) or ""
    return Toolchain(ptxas or on_path, libdevice, data_dir, not data_dir or Path(data_dir).is_dir())


def _homes(data_dir: str, path: Sequence[str], root: Path) -> Iterator[Path]:
    if data_dir:
        yield Path(data_dir)
    for entry in path:
        yield from sorted(Path(entry).glob("nvidia/cuda_nvcc"))
    yield root / "usr/local/cuda"
    yield from sorted((root / "usr/local").glob("cuda-*"), reverse=True)
