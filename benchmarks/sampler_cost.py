"""What sampling costs: CPU time as a share of one core, at one sample a second of eight fake GPUs.

    python benchmarks/sampler_cost.py [--seconds 60] [--rounds 3] [--gpus 8] [--extra FOLDER]

oomph's sampler runs beside nvitop, gpustat and a loop over `nvidia-smi`, all on the fake driver of tests/rig, in turns.
Nothing is installed: `--extra` names a folder with packages (`pip install nvitop gpustat --target FOLDER`), and what
cannot be imported is left out and named. Starting up does not count. The fake driver answers at once, so this is the
cost of the callers; and the fake `nvidia-smi` is a Python script, which costs more than NVIDIA's program.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RIG = Path(__file__).resolve().parents[1] / "tests" / "rig"
WARM_TICKS = 3
WORKERS = 8
TIMELINE = """
set gpus {gpus}
at 0 * mem_total 80G
at 0 * mem_used 20G
at 3600 * mem_used 60G lin
at 0 * util 93
at 0 * temp 41
at 60 * temp 74 lin
at 0 * power 412
at 0 * proc_mem 20G
"""
Tick = Callable[[], object]


def nvml() -> Tick:
    """NVML in a thread of its own, as the sampler asks it."""
    from oomph.explain.reading.kernel_log import KernelLog
    from oomph.gpu.gpus import Gpus
    from oomph.monitor.gpu_watch import GpuThread, GpuWatch

    watch = GpuWatch(GpuThread(Gpus()), KernelLog())

    def tick() -> None:
        now = time.monotonic()
        watch.ask(now)
        found = watch.gpus(now, lambda pid: False)
        assert found, watch.problem or "no answer"

    return tick


def nvml_host_processes() -> Tick:
    """The same, with the machine and a script of nine processes."""
    from oomph.monitor.host import Host, ProcessTree

    gpus, host, processes = nvml(), Host(), ProcessTree(0, os.getppid())

    def tick() -> None:
        gpus()
        now = time.monotonic()
        host.read(now)
        assert processes.read(now)

    return tick


def whole() -> Tick:
    """All that the sampler does, with what it keeps and what it looks for."""
    from oomph.explain.reading.kernel_log import KernelLog
    from oomph.gpu.gpus import Gpus
    from oomph.monitor.board import BoardReader
    from oomph.monitor.gpu_watch import GpuThread, GpuWatch
    from oomph.monitor.host import Host, ProcessTree
    from oomph.monitor.sampler import Sampling
    from oomph.monitor.store import Store

    run_dir = Path(tempfile.mkdtemp(dir=os.getcwd()))
    sources = GpuWatch(GpuThread(Gpus()), KernelLog()), Host(), ProcessTree(0, os.getppid()), BoardReader(run_dir)
    sampling = Sampling(*sources, Store(run_dir))
    return lambda: sampling.take(time.monotonic())


def nvitop() -> Tick:
    """nvitop's own snapshot of every GPU."""
    from nvitop import Device

    devices = Device.all()
    assert devices
    return lambda: [device.as_snapshot() for device in devices]


def gpustat() -> Tick:
    """gpustat's query of every GPU."""
    from gpustat import new_query

    assert len(new_query())
    return new_query


def smi_loop() -> Tick:
    """A thread that starts nvidia-smi, as tutorials show, for one field."""
    command = [sys.executable, str(RIG / "nvidia-smi"), "--query-gpu=memory.used", "--format=csv,nounits,noheader"]
    return lambda: [int(line) for line in subprocess.check_output(command, timeout=30, text=True).split()]


CONTENDERS: dict[str, Callable[[], Tick]] = {
    "oomph: NVML": nvml,
    "oomph: NVML, host, processes": nvml_host_processes,
    "oomph: the whole sampler": whole,
    "nvitop": nvitop,
    "gpustat": gpustat,
    "nvidia-smi loop": smi_loop,
}


def cpu_seconds() -> float:
    """Of this process and the children it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(name: str, seconds: float) -> float:
    """The share of one core that a contender takes, in this process."""
    tick = CONTENDERS[name]()
    for _ in range(WARM_TICKS):
        tick()
        time.sleep(0.2)
    began, before = time.monotonic(), cpu_seconds()
    for number in range(1, round(seconds) + 1):
        tick()
        time.sleep(max(began + number - time.monotonic(), 0))
    return (cpu_seconds() - before) / (time.monotonic() - began)


def in_a_process(name: str, seconds: float, environ: dict[str, str], folder: Path) -> float | None:
    """The share, measured in a process of its own; None if it cannot run here."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, "--seconds", str(seconds)],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds * 3 + 60,
    )
    if done.returncode:
        print(f"{name} is left out: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
        return None
    return float(json.loads(done.stdout)["share"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="of each contender, in all rounds together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--extra", type=Path, help="a folder with packages to compare with")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps({"share": measure(options.one, options.seconds)}))
        return
    subprocess.run(["sh", str(RIG / "build.sh"), str(RIG / "built")], check=True, stdout=subprocess.DEVNULL)
    sleepers = [subprocess.Popen(["sleep", "3600"]) for _ in range(WORKERS)]  # the workers of a script
    try:
        with tempfile.TemporaryDirectory() as folder:
            compare(options, Path(folder))
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Measure all in turns and print the table."""
    script = folder / "timeline"
    holders = "".join(f"proc {gpu} {os.getpid()}\n" for gpu in range(options.gpus))
    script.write_text(TIMELINE.format(gpus=options.gpus) + holders)
    paths = [str(options.extra.resolve())] if options.extra else []
    environ = {
        **os.environ,
        "LD_LIBRARY_PATH": str(RIG / "built" / "driver"),
        "FAKE_NVML_SCRIPT": str(script),
        "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), *paths]),
    }
    shares: dict[str, list[float]] = {}
    names = list(CONTENDERS)
    for _ in range(options.rounds):
        for name in list(names):
            share = in_a_process(name, options.seconds / options.rounds, environ, folder)
            if share is None:
                names.remove(name)
            else:
                shares.setdefault(name, []).append(share)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{options.gpus} GPUs, 1 Hz, {options.seconds:g} s each in {options.rounds} turns; % of one core")
    print(f"\n{'':30} {'median':>8} {'lowest':>8} {'highest':>8}")
    for name, found in shares.items():
        print(f"{name:30} {statistics.median(found):8.3%} {min(found):8.3%} {max(found):8.3%}")


if __name__ == "__main__":
    main()
