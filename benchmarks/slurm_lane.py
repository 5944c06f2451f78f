"""Trains two workers through a real Slurm here, and takes them away: `python benchmarks/slurm_lane.py [JOB ...]`.

Starts munged, slurmctld and slurmd on loopback with their own configuration in a temporary folder, and ends them by
their PIDs. Submits the file that `oomph submit --slurm` renders. The jobs: `loop` loses a worker, gets the signal
before the time limit, is requeued as by a preemption, and has to end with the weights of an undisturbed run. So does
`fits`, whose workers agree by themselves on where they save; there, only one of them gets the signal. `failing` is a
script with an error of its own, which must not be started again. Needs Debian's slurm-wlm and munge.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel", "squeue")
STEP_SECONDS = 0.3
LIMIT_SECONDS = 120
FAILS = "import os\nif '\"index\": 1' in os.environ['TF_CONFIG']:\n    raise ValueError('its own')\n"
CONFIGURATION = """
ClusterName=oomph
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=10
MinJobAge=600
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=lane Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def main() -> None:
    """Run the lane."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not found; on Debian: apt-get install --no-install-recommends slurm-wlm munge")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        script = (ROOT / "tests/end_to_end/scripts/several_workers.py").read_text()
        (folder / "train.py").write_text(script.replace("    train(x[", f"    time.sleep({STEP_SECONDS}); train(x["))
        (folder / "fits.py").write_text((ROOT / "tests/end_to_end/scripts/fits_of_workers.py").read_text())
        (folder / "fails.py").write_text(FAILS)
        with slurm(folder):
            for each in sys.argv[1:] or JOBS:
                JOBS[each](folder)


def struck_job(folder: Path) -> None:
    """Take away the workers of one job in three ways."""
    undisturbed = weights(folder, "plain", ["run", "--workers=2", "train.py", "plain"])
    job = submit(folder, "train.py", "ours", "1", "17", "SIGKILL")
    wait(lambda: restarts(job) == 1, folder, "requeued after the death of a worker")
    print(f"killed worker to requeued job: {time.time() - float((folder / 'ours-struck-17').read_text()):.1f} s")
    for number, take in ((2, ["scancel", "--signal=USR1", job]), (3, ["scontrol", "requeue", job])):
        start_now(job)
        wait(lambda: count(folder, "from step") == 2 * number, folder, f"training in start {number}")  # noqa: B023
        time.sleep(4 * STEP_SECONDS)
        since = time.monotonic()
        call(*take)
        wait(lambda: restarts(job) == number, folder, f"requeued by {' '.join(take)}")  # noqa: B023
        print(f"{' '.join(take)}: requeued after {time.monotonic() - since:.1f} s")
    start_now(job)
    wait(lambda: state(job) == "COMPLETED", folder, "the end")
    compare(folder, "ours", undisturbed)
    steps = [line for line in output(folder).splitlines() if line.startswith("from step")]
    print(f"{restarts(job)} restarts; {', '.join(steps[::2])}")


def fits_job(folder: Path) -> None:
    """Kill a worker of a job that trains by `fit`, and send the signal to the other one alone."""
    undisturbed = weights(folder, "undisturbed", ["run", "--workers=2", "fits.py", "undisturbed"])
    job = submit(folder, "fits.py", "fits", "1", "100", "SIGKILL")
    wait(lambda: restarts(job) == 1, folder, "requeued after the death of a worker")
    start_now(job)
    wait(lambda: count(folder, "oomph: resumed fit") == 2, folder, "the fit in its second start")
    pid = int((folder / f".oomph/runs/slurm-{job}-fits/owner-2").read_text())
    since = time.monotonic()
    os.kill(pid, signal.SIGUSR1)
    wait(lambda: restarts(job) == 2, folder, "requeued by a signal to one worker")
    print(f"SIGUSR1 to one worker of a fit: requeued after {time.monotonic() - since:.1f} s")
    start_now(job)
    wait(lambda: state(job) == "COMPLETED", folder, "the end")
    compare(folder, "fits", undisturbed)
    said = output(folder).splitlines()
    for text in ("oomph: resumed fit at", "steps are saved; exiting"):
        lines = [line.partition(")")[0] for line in said if text in line]
        print("\n".join(lines))
        if any(lines.count(line) != 2 for line in lines):
            sys.exit("the workers did not resume, or stop, at the same step")


def compare(folder: Path, name: str, undisturbed: list[np.ndarray]) -> None:
    """Compare the weights of both workers with those of an undisturbed run. Ends the lane if they differ."""
    for rank in range(2):
        found = arrays(folder / f"{name}-{rank}.npz")
        worst = max(float(abs(one - other).max()) for one, other in zip(found, undisturbed, strict=True))
        print(f"worker {rank}: largest difference to the undisturbed weights {worst:g}")
        if worst > 1e-12:
            sys.exit("the weights differ")


def failing_job(folder: Path) -> None:
    """Submit a script with an error of its own, and fail if it is started again."""
    job = submit(folder, "fails.py")
    wait(lambda: state(job) == "FAILED", folder, "the end of a script with an error")
    if restarts(job) != 0 or "ExitCode=93:0" not in shown(job):
        sys.exit(f"an error of the script has started it again:\n{shown(job)}")
    print("error of the script: not started again, exit code 93")


JOBS: dict[str, Callable[[Path], None]] = {"loop": struck_job, "fits": fits_job, "failing": failing_job}


def submit(folder: Path, *words: str) -> str:
    """Submit the rendered file, and return the number of the job."""
    command = [sys.executable, "-m", "oomph", "submit", "--slurm", "--workers=2", "--dry-run", *words]
    text = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout
    (folder / "output").write_text("")
    return call("sbatch", "--parsable", "--output=output", input=text, cwd=folder).strip()


def start_now(job: str) -> None:
    """Start a requeued job, which Slurm would leave for two minutes: within a second, it would revoke the start."""
    time.sleep(3.0)

    def is_started() -> bool:
        if state(job) == "PENDING":
            subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], capture_output=True, timeout=30)
        return state(job) == "RUNNING"

    wait(is_started, None, "the next start")


def shown(job: str) -> str:
    """Return what Slurm knows of a job."""
    return call("scontrol", "show", "job", job)


def state(job: str) -> str:
    """Return the state of a job."""
    return shown(job).partition("JobState=")[2].split()[0]


def restarts(job: str) -> int:
    """Return how often a job was requeued."""
    return int(shown(job).partition("Restarts=")[2].split()[0])


def output(folder: Path) -> str:
    """Return what the workers of the job have printed."""
    return (folder / "output").read_text(errors="replace")


def count(folder: Path, text: str) -> int:
    """Count the lines of the job's output that begin with a text."""
    return sum(line.startswith(text) for line in output(folder).splitlines())


def weights(folder: Path, name: str, words: list[str]) -> list[np.ndarray]:
    """Return the weights of an undisturbed run."""
    subprocess.run([sys.executable, "-m", "oomph", *words], cwd=folder, check=True, timeout=LIMIT_SECONDS)
    return arrays(folder / f"{name}-0.npz")


def arrays(path: Path) -> list[np.ndarray]:
    """Return the arrays in a file."""
    with np.load(path) as found:
        return [found[name] for name in found.files]


def call(*words: str, **options: object) -> str:
    """Run one of Slurm's programs, and return its output."""
    run = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True, **options)  # type: ignore[call-overload]
    return str(run.stdout)


def wait(is_true: Callable[[], bool], folder: Path | None, what: str) -> None:
    """Wait for something. Ends the lane if it does not come."""
    until = time.monotonic() + LIMIT_SECONDS
    while not is_true():
        if time.monotonic() > until:
            sys.exit(f"{'' if folder is None else output(folder)[-5000:]}\nwaited in vain for: {what}")
        time.sleep(0.1)


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """Run Slurm's daemons in the folder."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    facts = {"host": socket.gethostname(), "user": getpass.getuser(), "cpus": os.cpu_count(), "ports": free_ports(2)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, **facts))
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={folder}/munge.{ending}" for option, ending in files.items()]
    with ExitStack() as stack:
        for words in (["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            stack.enter_context(daemon(folder, words))
            time.sleep(1.0)
        wait(lambda: "State=IDLE" in call("scontrol", "show", "node"), None, "the node")
        try:
            yield
        finally:
            subprocess.run(["scancel", f"--user={getpass.getuser()}"], timeout=30, check=False)
            wait(lambda: not call("squeue", "--noheader", "--states=RUNNING,COMPLETING"), None, "the end of all jobs")


@contextmanager
def daemon(folder: Path, words: list[str]) -> Iterator[None]:
    """Run a daemon in the foreground, and end it."""
    with open(folder / f"{words[0]}.out", "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(number: int) -> list[int]:
    """Return ports that are free now."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]


if __name__ == "__main__":
    main()
