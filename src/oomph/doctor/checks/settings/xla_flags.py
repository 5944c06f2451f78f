"""XLA_FLAGS holds a flag that XLA does not know, which ends the process."""

import difflib

from oomph.doctor.check import Check, Finding, failed, passed
from oomph.doctor.commands import export
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_COMMON = (
    "xla_gpu_autotune_level",
    "xla_gpu_cuda_data_dir",
    "xla_gpu_deterministic_ops",
    "xla_gpu_enable_command_buffer",
    "xla_gpu_enable_triton_gemm",
    "xla_gpu_strict_conv_algorithm_picker",
    "xla_force_host_platform_device_count",
    "xla_dump_to",
)
"""Flags that people set, for a suggestion only."""


def _look(snapshot: Snapshot) -> Finding:
    value = snapshot.environment.get("XLA_FLAGS", "")
    if not value.strip():
        return passed("XLA_FLAGS is not set")
    words = value.split()
    if not value.startswith("-"):
        return passed(f"XLA_FLAGS names a file, {words[0]}")
    strange = [word for word in words if not word.startswith("--xla")]
    unknown = snapshot.tensorflow.unknown_flags if snapshot.tensorflow else ()
    if not strange and not unknown:
        return passed(f"XLA_FLAGS={value}")
    wrong = [*strange, *(f"--{name}" for name in unknown)]
    kept = [word for word in words if word.split("=")[0] not in wrong and word not in strange]
    without = export("XLA_FLAGS", " ".join(kept)) if kept else "unset XLA_FLAGS"
    close = [meant for name in unknown for meant in difflib.get_close_matches(name, _COMMON, n=1, cutoff=0.8)]
    hint = f" Did you mean --{close[0]}?" if close else ""
    text = (
        f"XLA_FLAGS holds {', '.join(wrong)}, which this TensorFlow does not know: the process ends at its first use of"
        f" XLA.{hint}"
    )
    return failed("xla-compile-failure", text, Remedy("Leave it out", without))


CHECK = Check(
    code="DOC404",
    name="xla-flags",
    why=(
        'XLA reads the variable when TensorFlow starts its first compilation or GPU, and ends the process with "Unknown'
        ' flag" if one is misspelt.'
    ),
    look=_look,
    faults=("xla-compile-failure",),
    needs=("tensorflow",),
    source="parse_flags_from_env.cc of xla; the flags are looked up among the strings of the installed library",
    shown="TensorFlow exits with code 1 over --xla_bogus_flag=1, and not over flags that the check calls known",
)
