"""The demonstration's runs: the script, the memory limit, when to kill it. Pure, except for locating the script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import UsageError
from oomph.process.own_process import without_own_variables

EPOCHS = 15
BATCH = 256
STEPS = 90
"""The total number of training steps: 1536 samples in batches of 256, 15 times."""
CHECKPOINT_EVERY = 10
"""The number of steps between two checkpoints, and therefore the most that a kill can cost."""
KILL_AT = 45
"""The number of steps after which the script is killed: halfway, and between two checkpoints."""

_COMMON = {
    "CUDA_VISIBLE_DEVICES": "-1",  # the limit applies to CPU memory only
    "TF_ENABLE_ONEDNN_OPTS": "0",  # oneDNN allocates outside the limit
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": "2",  # the number of threads determines the peak memory
    "TF_NUM_INTEROP_THREADS": "2",
    "KERAS_BACKEND": "tensorflow",
    "PYTHONUNBUFFERED": "1",
}


@dataclass(frozen=True)
class Precision:
    """A precision to train at."""

    name: str
    limit_mb: int
    """The memory limit in MB: about two thirds of what the full batch needs, so half of the batch fits."""
    options: tuple[str, ...] = ()


FLOAT32 = Precision("float32", limit_mb=28)
FLOAT64 = Precision("float64", limit_mb=56, options=("--float64",))


def script_path() -> Path:
    """Return the path of the training script: next to this module in a wheel, in examples/ in a checkout."""
    here = Path(__file__).resolve()
    for path in (here.with_name("digits.py"), here.parents[3] / "examples" / "digits.py"):
        if path.is_file():
            return path
    raise UsageError("the demo's training script digits.py is missing from this installation: install oomph again")


def script_words(script: Path, precision: Precision, out: Path, order: str = "forward") -> list[str]:
    """Return the script and its arguments as a command line."""
    words = [str(script), "--epochs", str(EPOCHS), "--batch", str(BATCH), "--order", order, "--out", str(out)]
    return [*words, *precision.options]


def environment(inherited: Mapping[str, str], limit_mb: int | None) -> dict[str, str]:
    """Build the environment for a child process; with a limit, TensorFlow's allocator refuses to exceed it."""
    kept = {name: value for name, value in without_own_variables(inherited).items() if not name.startswith("TF_")}
    if limit_mb is None:
        return kept | _COMMON
    return kept | _COMMON | {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(limit_mb)}
