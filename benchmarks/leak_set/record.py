"""Records real TensorFlow trainings with and without leaks, as labelled series.

    python benchmarks/leak_set/record.py FOLDER [NAME ...]

Each training runs in a process of its own, with TensorFlow's BFC allocator on the CPU: the allocator of GPUs, so that
`get_memory_info` counts what tensors hold.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_MB = 1024
SECONDS = 900
ENVIRON = {
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
    "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MB),
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "-1",
}


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).resolve().parent
    names = names or subprocess.check_output([sys.executable, here / "trainings.py"], text=True, timeout=60).split()
    for name in names:
        command = [sys.executable, str(here / "trainings.py"), name, str(folder / f"{name}.jsonl")]
        done = subprocess.run(command, env={**os.environ, **ENVIRON}, timeout=SECONDS, check=False)
        print(name, "" if done.returncode == 0 else f"ended with {done.returncode}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
