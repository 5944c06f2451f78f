"""Compiles a step for a GPU that is not present, in a separate process. Run as a file; needs jax, but not oomph.

    python deviceless.py STEP.hlo TARGET.txt MOST_BYTES

Prints one line of JSON: the sizes that XLA assigned, in bytes, or a `problem`. Uses undocumented names from jaxlib
0.10; with a version that lacks them, it reports a problem.
"""

from __future__ import annotations

import json
import resource
import sys
import textwrap
from pathlib import Path
from typing import Any

_LONGEST = 300
"""The maximum length of a reported problem, in characters."""


def main(step: str, target: str, most: int) -> dict[str, Any]:
    """Return the memory that XLA assigns to the step in the file `step`, for the GPU described in the file `target`."""
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        return _sizes(_compiled(Path(step).read_bytes(), Path(target).read_text(encoding="utf-8")))
    except Exception as error:  # a compiler may fail in any way
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return {"problem": f"{type(error).__name__}: {textwrap.shorten(first, _LONGEST, placeholder='…')}"}


def _compiled(step: bytes, target: str) -> Any:
    from jax.experimental import topologies
    from jaxlib import _jax

    topology = topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=target)
    device = topology.devices[0]
    module = _without_copies(_jax.mlir.hlo_to_stablehlo(step))
    return device.client.compile(module, _jax.DeviceList((device,)), _jax.CompileOptions())


def _without_copies(step: bytes) -> Any:
    """Return the step as a module without `mhlo.copy`, which cannot be compiled; XLA inserts the copies it needs."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir

    copies: list[Any] = []

    def note(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    with make_ir_context():
        module = ir.Module.parse(step)
        module.operation.walk(note)
        for copy in copies:
            copy.results[0].replace_all_uses_with(copy.operands[0])
            copy.operation.erase()
    return module


def _sizes(executable: Any) -> dict[str, Any]:
    from jaxlib.version import __version__

    stats = executable.get_compiled_memory_stats()
    names = ("argument", "output", "alias", "temp")
    return {"version": __version__, **{name: int(getattr(stats, f"{name}_size_in_bytes")) for name in names}}


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file, whose modules would shadow others
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))), flush=True)
