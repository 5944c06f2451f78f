"""A fake NVIDIA driver whose GPUs follow a script; see tests/rig."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

RIG = Path(__file__).parents[1] / "rig"
EIGHT = """set gpus 8
str * name Fake H100
at 0 * mem_total 80G
at 0 * mem_used 8G
at 0 * temp 41
at 0 * power 400
at 0 * power_limit 700
at 0 * util 97
proc 0 1
at 0 * proc_mem 3G
"""


def driver(folder: Path, script: str) -> dict[str, str]:
    """Return the environment in which NVML answers according to this script; the rig is built once per checkout."""
    built = RIG / "built"
    built.mkdir(exist_ok=True)
    with (built / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (built / "driver/libnvidia-ml.so.1").exists():
            subprocess.run(["sh", str(RIG / "build.sh"), str(built)], check=True, capture_output=True, timeout=120)
    (folder / "nvml").write_text(script)
    return {"LD_LIBRARY_PATH": str(built / "driver"), "FAKE_NVML_SCRIPT": str(folder / "nvml")}
