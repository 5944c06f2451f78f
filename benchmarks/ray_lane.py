"""Measures how long training stands still after a kill on Ray, under oomph and in plain Ray Train.

`python benchmarks/ray_lane.py [--rounds 3]`, in an environment with `oomph[ray]`, `ray[train]` and TensorFlow. On one
cluster of two nodes with a CPU each, the same script trains in turn under both: worker 1 kills itself at a step, and
the script resumes from its own checkpoint. Prints the seconds from the kill to the end of the first new step.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests/end_to_end/scripts/several_workers.py"
CLUSTER = ROOT / "tests/end_to_end/ray_cluster.py"
STEP = 17
FAULT = ["1", str(STEP), "SIGKILL"]
LIMIT_SECONDS = 300
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
PLAIN = """
import os, runpy, sys
import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.tensorflow import TensorflowTrainer

def train(config):
    os.chdir(config["folder"])
    sys.argv = [config["script"], *config["words"]]
    runpy.run_path(config["script"], run_name="__main__")

address, folder, script, *words = sys.argv[1:]
ray.init(address=address, log_to_driver=False, runtime_env={"env_vars": {"TF_CPP_MIN_LOG_LEVEL": "3"}})
trainer = TensorflowTrainer(
    train,
    train_loop_config={"folder": folder, "script": script, "words": words},
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(storage_path=folder, failure_config=FailureConfig(max_failures=2)),
)
trainer.fit()
"""


def stood_still(folder: Path, name: str) -> float:
    """Return the seconds from the kill to the end of the first step after it."""
    killed = float((folder / f"{name}-struck-{STEP}").read_text())
    return float((folder / f"{name}-first-0").read_text()) - killed


def run(argv: list[str], folder: Path) -> None:
    """Run to the end, which must be a success."""
    with open(folder / "said", "w") as said:
        code = subprocess.run(argv, cwd=folder, stdout=said, stderr=said, timeout=LIMIT_SECONDS).returncode
    if code != 0:
        sys.exit(f"exit code {code}: {argv}\n{(folder / 'said').read_text()[-4000:]}")


def under_oomph(address: str, folder: Path) -> float:
    """Train under oomph."""
    words = ["run", "--engine=ray", f"--address={address}", "--workers=2", SCRIPT.name, "oomph", *FAULT]
    run([sys.executable, "-m", "oomph", *words], folder)
    return stood_still(folder, "oomph")


def in_plain_ray_train(address: str, folder: Path) -> float:
    """Train in plain Ray Train, which starts all workers again after a failure."""
    run([sys.executable, "-c", PLAIN, address, str(folder), str(folder / SCRIPT.name), "plain", *FAULT], folder)
    return stood_still(folder, "plain")


def main() -> None:
    """Train in turn, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    os.environ.update(QUIET)
    pipe = subprocess.PIPE
    cluster = subprocess.Popen([sys.executable, str(CLUSTER)], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    assert cluster.stdin is not None
    assert cluster.stdout is not None
    found: dict[str, list[float]] = {"oomph": [], "Ray Train": []}
    try:
        address = cluster.stdout.readline().decode().strip()
        for _ in range(rounds):
            for name, train in (("oomph", under_oomph), ("Ray Train", in_plain_ray_train)):
                with tempfile.TemporaryDirectory() as folder:
                    shutil.copy(SCRIPT, folder)
                    found[name].append(round(train(address, Path(os.path.realpath(folder))), 2))
                print(f"{name}: {found[name][-1]} s from the kill to the first new step", flush=True)
    finally:
        cluster.stdin.close()
        cluster.wait(60)
    print(json.dumps({name: {"median": statistics.median(each), "all": each} for name, each in found.items()}))


if __name__ == "__main__":
    main()
