"""Runs XLA's compilation of a step in a separate process, with time and memory limits. Standard library only."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from oomph.process.child import run
from oomph.terminal.amounts import in_three_digits
from oomph.terminal.endings import ProcessEnd

_KIB, _MIB = 1 << 10, 1 << 20
_CUDA, _CUDNN = (12, 9, 1), (9, 10, 2)
"""The versions of CUDA and cuDNN that XLA compiles for."""
_CHILD = Path(__file__).with_name("deviceless.py")
_PACKAGES = ("jax", "jaxlib", "jax-cuda12-pjrt")
_LEAST, _MOST = 1 << 30, 8 << 30
"""The memory, in bytes, that must be free for the compiler, and the maximum that it may use."""
_OLDEST_PYTHON = (3, 11)
"""The oldest Python version that jax 0.10 supports."""
_HIDDEN = ("OOMPH_", "JAX_", "XLA_", "TF_")
"""Prefixes of the script's environment variables that are not passed to the compiler."""
_OF_ITS_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
PYTHON = "OOMPH_XLA_PYTHON"
"""The environment variable for a separate Python with the compiler; TensorFlow imports JAX wherever it finds it."""
INSTALL = "pip install 'oomph[xla]'"


class Target(NamedTuple):
    """One GPU as XLA's compiler sees it. Sizes are in bytes, the bandwidth in GB/s and the clock rate in GHz."""

    capability: tuple[int, int]
    name: str
    multiprocessors: int
    threads: int
    """The maximum number of threads per multiprocessor."""
    shared: int
    """The shared memory per multiprocessor."""
    shared_of_block: int
    """The maximum shared memory per block."""
    lanes: int
    """The number of float32 units per multiprocessor."""
    cache: int
    bandwidth: int
    clock: float

    @property
    def words(self) -> str:
        """A description of the target, such as "compute capability 8.9, like an RTX 4090"."""
        major, minor = self.capability
        return f"compute capability {major}.{minor}, like {self.name}"


TARGETS = (
    Target((6, 0), "a P100", 56, 2048, 64 * _KIB, 48 * _KIB, 64, 4 * _MIB, 732, 1.48),
    Target((6, 1), "a GTX 1080 Ti", 28, 2048, 96 * _KIB, 48 * _KIB, 128, 2816 * _KIB, 484, 1.58),
    Target((7, 0), "a V100", 80, 2048, 96 * _KIB, 96 * _KIB, 64, 6 * _MIB, 900, 1.53),
    Target((7, 5), "a T4", 40, 1024, 64 * _KIB, 64 * _KIB, 64, 4 * _MIB, 320, 1.59),
    Target((8, 0), "an A100", 108, 2048, 164 * _KIB, 163 * _KIB, 64, 40 * _MIB, 1555, 1.41),
    Target((8, 6), "an RTX 3090", 82, 1536, 100 * _KIB, 99 * _KIB, 128, 6 * _MIB, 936, 1.70),
    Target((8, 9), "an RTX 4090", 128, 1536, 100 * _KIB, 99 * _KIB, 128, 72 * _MIB, 1008, 2.52),
    Target((9, 0), "an H100", 132, 2048, 228 * _KIB, 227 * _KIB, 128, 50 * _MIB, 3352, 1.98),
    Target((10, 0), "a B200", 148, 2048, 228 * _KIB, 227 * _KIB, 128, 126 * _MIB, 8000, 1.96),
    Target((12, 0), "an RTX 5090", 170, 1536, 100 * _KIB, 99 * _KIB, 128, 96 * _MIB, 1792, 2.41),
)
_UNNAMED = (9, 0)
"""The compute capability used for a bare amount of memory; of all targets tried, it got the largest workspaces."""


class Chosen(NamedTuple):
    """The target that a plan is compiled for."""

    target: Target
    is_nearest: bool
    """True if the compute capability of the plan's GPU is unknown, or differs from the target's."""


def choose(capability: str) -> Chosen | None:
    """Choose the target for a compute capability such as "8.9", its own or the next lower one, if there is one."""
    wanted = _numbers(capability)
    if wanted is None:
        return Chosen(next(each for each in TARGETS if each.capability == _UNNAMED), True)
    below = [target for target in TARGETS if target.capability <= wanted]
    return Chosen(below[-1], below[-1].capability != wanted) if below else None


def _numbers(capability: str) -> tuple[int, int] | None:
    major, _, minor = capability.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def description(target: Target, memory: int) -> str:
    """Describe the target with this much memory, as a GpuTargetConfigProto in text form."""
    (major, minor), cuda = target.capability, ".".join(map(str, _CUDA))
    dnn_major, dnn_minor, dnn_patch = _CUDNN
    clock = f"{target.clock:g}"
    return f"""
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  device_memory_size: {memory}
  core_count: {target.multiprocessors}
  fpus_per_core: {target.lanes}
  clock_rate_ghz: {clock}
  memory_bandwidth: {target.bandwidth * 10**9}
  l2_cache_size: {target.cache}
  shared_memory_per_core: {target.shared}
  shared_memory_per_block: {48 * _KIB}
  shared_memory_per_block_optin: {target.shared_of_block}
  threads_per_warp: 32
  threads_per_core_limit: {target.threads}
  threads_per_block_limit: 1024
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  driver_version: "{cuda}" runtime_version: "{cuda}" compile_time_toolkit_version: "{cuda}"
  dnn_version: "{dnn_major}.{dnn_minor}.{dnn_patch}"
}}
platform_name: "CUDA"
dnn_version_info {{ major: {dnn_major} minor: {dnn_minor} patch: {dnn_patch} }}
device_description_str: "{target.words}"
"""


class NotCompiledError(Exception):
    """XLA did not compile the step; the message says why, without a full stop."""


@dataclass(frozen=True)
class Compiled:
    """The memory that XLA assigned to one step, in bytes."""

    arguments: int
    """The size in bytes of the variables and the batch."""
    outputs: int
    """The size in bytes of everything that the step returns: the variables it changed and the metrics it logs."""
    aliased: int
    """The size in bytes of the outputs that reuse the memory of arguments."""
    temporary: int
    version: str
    """The version of jaxlib whose XLA compiled the step."""
    seconds: float
    """The duration of the compilation, in seconds."""

    @property
    def total(self) -> int:
        """The memory in use while the step runs, in bytes."""
        return self.arguments + self.outputs - self.aliased + self.temporary


def why_not() -> str:
    """Return why nothing can be compiled on this machine, without a full stop; empty if compiling should work."""
    other = os.environ.get(PYTHON)
    if other:
        return "" if os.access(other, os.X_OK) else f"{PYTHON} is not an executable program: {other}"
    running = (sys.version_info.major, sys.version_info.minor)
    if running < _OLDEST_PYTHON or platform.system() != "Linux":
        return "to have XLA's compiler plan the step, oomph needs Python 3.11 or newer on Linux"
    if all(_version(name) for name in _PACKAGES):
        return ""
    return f"oomph can consult XLA's compiler (1 GB) on any machine: {INSTALL}"


def _version(name: str) -> str:
    try:
        return version(name) or ""
    except PackageNotFoundError:
        return ""


def compile_step(step: bytes, target: str, seconds: float, available: int | None) -> Compiled:
    """Compile a step for a GPU that is not present.

    Args:
        step: the serialized HLO of the step.
        target: the GPU, as returned by `targets.description`.
        seconds: the time limit.
        available: the free memory in bytes; None if unknown.

    Raises:
        NotCompiledError: the step cannot be compiled, or compiling takes too long or needs too much memory.
    """
    if available is not None and available < _LEAST:
        raise NotCompiledError(
            f"only {in_three_digits(available)} of memory is free, but XLA's compiler needs up to 1 GiB"
        )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="oomph-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "step").write_bytes(step)
        (folder / "target").write_text(target, encoding="utf-8")
        write_toolkit(folder / "cuda")
        most = _MOST if available is None else min(_MOST, available)
        found = _answer([str(folder / "step"), str(folder / "target"), str(most)], folder, seconds)
    try:
        argument, output, alias, temp = (int(found[key]) for key in ("argument", "output", "alias", "temp"))
        compiler = str(found["version"])
    except (KeyError, TypeError, ValueError):
        raise NotCompiledError(str(found.get("problem", "the compiler returned no sizes"))) from None
    return Compiled(argument, output, alias, temp, compiler, time.monotonic() - began)


def _answer(words: list[str], folder: Path, seconds: float) -> Mapping[str, Any]:
    command = [os.environ.get(PYTHON) or sys.executable, str(_CHILD), *words]
    try:
        done = run(command, _environ(folder), seconds, cwd=folder)
    except TimeoutError:
        raise NotCompiledError(f"XLA's compiler did not finish within {seconds:.0f} s") from None
    except OSError as error:
        raise NotCompiledError(f"XLA's compiler could not be started: {error.strerror}") from error
    return answer_of(done.output, done.returncode)


def answer_of(said: bytes, returncode: int) -> Mapping[str, Any]:
    """Return the answer in the last line of the compiler's output, or the reason why there is none."""
    try:
        found = json.loads(said.splitlines()[-1])
        return found if isinstance(found, dict) else {}
    except (ValueError, IndexError):
        return {"problem": f"XLA's compiler {ProcessEnd(returncode).predicate}"}


def _environ(folder: Path) -> dict[str, str]:
    """Return the environment for the compiler, in which it looks for no GPU and uses no installed toolkit."""
    hidden = (*_HIDDEN, *_OF_ITS_PYTHON) if os.environ.get(PYTHON) else _HIDDEN
    passed = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return passed | {
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "MALLOC_ARENA_MAX": "2",
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={folder / 'cuda'}",
    }


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
    """Write the toolkit stand-ins to the folder where XLA looks for them, its `xla_gpu_cuda_data_dir`."""
    assembler, functions = folder / "bin" / "ptxas", folder / "nvvm" / "libdevice" / "libdevice.10.bc"
    for path, text in ((assembler, _ASSEMBLER), (functions, _FUNCTIONS)):
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="ascii")
    assembler.chmod(0o700)
