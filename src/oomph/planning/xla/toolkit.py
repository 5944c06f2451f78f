"""Stand-ins for the two parts of the CUDA toolkit that XLA wants to find when it compiles.

XLA assigns the buffers of a step before it generates code, so the code itself does not matter here: with an assembler
that assembles nothing and an empty library of mathematical functions the sizes are the same, no toolkit need be
installed, and the time to assemble is saved.
"""

from __future__ import annotations

from pathlib import Path

_ASSEMBLER = """#!/bin/sh
case "$1" in --version) echo "Cuda compilation tools, release 12.9, V12.9.86"; exit 0;; esac
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then printf x > "$2"; fi
  shift
done
"""
_FUNCTIONS = "; no function\n"
"""An empty module: LLVM reads text as well as bitcode."""


def write_toolkit(folder: Path) -> None:
    """Write the stand-ins where XLA looks for them below its `xla_gpu_cuda_data_dir`."""
    assembler, functions = folder / "bin" / "ptxas", folder / "nvvm" / "libdevice" / "libdevice.10.bc"
    for path, text in ((assembler, _ASSEMBLER), (functions, _FUNCTIONS)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="ascii")
    assembler.chmod(0o700)
