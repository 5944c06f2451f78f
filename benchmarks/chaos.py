"""Random faults at random moments of small real trainings: does every run end with the right weights or error?

    python benchmarks/chaos.py [--runs 200] [--baselines 30] [--jobs 4] [--minutes 60] [--out build/chaos]

Each run draws its data pipeline, its faults and their moments from its number. Results are written as they come, and
recorded runs are not repeated. For each finished run it checks that the weights match the undisturbed training, that
by the ledger of samples every step took the right ones and none was applied twice, that no process and no temporary
file is left, and that its decisions can be recomputed. Exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import psutil

from oomph.journal.journal import read_journal
from oomph.run.hang.limits import FLOOR_VARIABLE
from oomph.run.policy.decisions import replay

SCRIPT = Path(__file__).with_name("chaos_training.py")
INSIDE = ("kill", "segv", "abort", "bus", "hang", "hang-cpp", "hang-gil", "corrupt", "child", "full")
"""Faults that the script brings upon itself; "full" makes writing fail for one step."""
OUTSIDE = ("kill-script", "kill-supervisor", "preempt", "preempt-script")
STOPS = {"own-error": 1, "always-abort": 93}
"""Faults that should end the run → with which exit code."""
STEPS = {False: 60, True: 10}
LONGEST_SECONDS = {False: 300.0, True: 600.0}
"""Until a run counts as one that does not end; with little memory, where TensorFlow itself waits long."""
SILENT_SECONDS = 10.0
"""A baseline has no detection of hangs: whoever runs it is taken to notice within this time."""
EVERY = 5


@dataclass(frozen=True)
class Plan:
    """What one run goes through."""

    number: int
    data: str
    wide: bool
    faults: tuple[tuple[str, int], ...]
    """(name, the step after which it comes), in order."""

    @property
    def expected_exit_code(self) -> int:
        return next((STOPS[name] for name, _ in self.faults if name in STOPS), 0)


@dataclass
class Result:
    """How it went."""

    number: int
    kind: str
    """"oomph", "restart" (from scratch) or "backup" (Keras' BackupAndRestore)."""
    faults: list[str]
    outcome: str
    """"right weights", "right stop", or what is wrong."""
    seconds: float
    executed: int
    useful: int
    attempts: int = 0
    difference: float | None = None
    problems: list[str] = field(default_factory=list)


def draw(number: int) -> Plan:
    """The plan of a run; the same for the same number."""
    dice = random.Random(number)
    wide = dice.random() < 0.1
    steps = STEPS[wide]
    names = [dice.choice((*INSIDE, *OUTSIDE)) for _ in range(dice.randint(1, 4))]
    if dice.random() < 0.1:
        names.append(dice.choice(tuple(STOPS)))
    moments = sorted(dice.sample(range(1, steps), len(names)))
    return Plan(number, dice.choice(("arrays", "dataset", "generator")), wide, tuple(zip(names, moments, strict=True)))


class Workplace:
    """The folder of one run, its environment and its processes."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan, self.longest = folder, plan, LONGEST_SECONDS[plan.wide]
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text(json.dumps(plan.faults))
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OOMPH_")}
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
        self.environ = {**clean, **quiet, FLOOR_VARIABLE: "3", "OMP_NUM_THREADS": "1", "CHAOS_RUN": str(folder)}
        if plan.wide:
            self.environ |= {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "44"}
            # TensorFlow waits 10 s, idle, before it reports out of memory, and operators wait one after another.
            self.environ[FLOOR_VARIABLE] = "30"
        self.words = [str(SCRIPT), "out.npz", "--data", plan.data, *(["--wide"] if plan.wide else [])]

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "log").open("ab")
        with log:
            return subprocess.Popen(
                argv, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def ledger(self) -> list[dict]:
        return read_ledger(self.folder)

    def processes(self) -> list[psutil.Process]:
        """Everything of this run that lives."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("CHAOS_RUN") == str(self.folder) and process.status() != "zombie":
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def end(self) -> None:
        for process in self.processes():
            try:
                process.kill()
            except psutil.Error:
                pass

    def outside(self) -> Iterator[tuple[str, int]]:
        yield from ((name, at) for name, at in self.plan.faults if name in OUTSIDE)


def read_ledger(folder: Path) -> list[dict]:
    """Every step that was executed, in order."""
    try:
        lines = (folder / "ledger.jsonl").read_text().splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}")]


def run_oomph(place: Workplace) -> tuple[int, int]:
    """Supervised, and started again with --resume when its supervisor is killed or it ends with 75."""
    coming = list(place.outside())
    argv = [
        sys.executable, "-m", "oomph", "run", "--resume=run", f"--checkpoint-every={EVERY}", *place.words
    ]  # fmt: skip
    process, starts, until = place.start(*argv), 1, time.monotonic() + place.longest
    while time.monotonic() < until:
        if coming and _reached(place, coming[0][1]):
            _strike(place, process, coming.pop(0)[0])
        code = process.poll()
        if code is None:
            time.sleep(0.02)
        elif code in (75, 143, -signal.SIGKILL):  # 143: the stop request came after the fit
            _wait_for_silence(place)
            process, starts = place.start(*argv), starts + 1
        else:
            return code, starts
    raise TimeoutError(f"not over after {place.longest:.0f} s")


def run_baseline(place: Workplace, backup: bool) -> tuple[int, int]:
    """`until python train.py; do :; done`, with somebody who ends what hangs."""
    coming = list(place.outside())
    argv = [sys.executable, *place.words, *(["--backup", "backup", "--every", str(EVERY)] if backup else [])]
    process, starts, until = place.start(*argv), 1, time.monotonic() + place.longest
    since, seen = time.monotonic(), 0
    while time.monotonic() < until:
        now = len(place.ledger())
        if now != seen:
            since, seen = time.monotonic(), now
        if (coming and _reached(place, coming[0][1])) or (seen and time.monotonic() - since > 2 * SILENT_SECONDS):
            if coming and _reached(place, coming[0][1]):
                coming.pop(0)
            place.end()
            since = time.monotonic()
        code = process.poll()
        if code == 0:
            return 0, starts
        if code is not None:
            place.end()
            process, starts, since = place.start(*argv), starts + 1, time.monotonic()
        time.sleep(0.02)
    raise TimeoutError(f"not over after {place.longest:.0f} s")


def _reached(place: Workplace, step: int) -> bool:
    return any(line["step"] >= step for line in place.ledger()[-50:])


def _strike(place: Workplace, supervisor: subprocess.Popen[bytes], name: str) -> None:
    """One fault from outside."""
    target, signum = {
        "kill-script": (_script(place), signal.SIGKILL),
        "preempt-script": (_script(place), signal.SIGTERM),
        "kill-supervisor": (supervisor.pid, signal.SIGKILL),
        "preempt": (supervisor.pid, signal.SIGTERM),
    }[name]
    try:
        if target is not None:
            os.kill(target, signum)
    except ProcessLookupError:
        pass  # it has just ended by itself: the run has one fault less


def _script(place: Workplace) -> int | None:
    owners = sorted((place.folder / "run").glob("owner-*"), key=lambda path: int(path.name[6:]))
    try:
        return int(owners[-1].read_text()) if owners else None
    except ValueError:
        return None


def _wait_for_silence(place: Workplace) -> None:
    """A killed supervisor's script ends by itself; never two writers."""
    until = time.monotonic() + 10
    while place.processes() and time.monotonic() < until:
        time.sleep(0.05)


def check(place: Workplace, code: int, reference: Path) -> tuple[str, float | None, list[str]]:
    """(outcome, largest difference of any variable, problems) of a run under oomph."""
    problems = [f"left running: {process.name()}" for process in _settled(place)]
    problems += [f"left behind: {path.name}" for path in _temporary(place.folder)]
    played = replay(read_journal(place.folder / "run"))
    problems += [f"decision of attempt {one.attempt} not reproduced" for one in played if not one.reproduced]
    expected = place.plan.expected_exit_code
    if code != expected:
        return f"exit code {code}, not {expected}", None, problems
    if code != 0:
        return "right stop", None, problems
    difference = largest_difference(place.folder / "out.npz", reference / "out.npz")
    problems += compare_ledgers(place, reference)
    right = difference <= (1e-9 if place.plan.wide else 0.0)
    return "right weights" if right else "other weights", difference, problems


def _settled(place: Workplace) -> list[psutil.Process]:
    _wait_for_silence(place)
    return place.processes()


def _temporary(folder: Path) -> list[Path]:
    patterns = ("tmp-*", "*.tmp", "*.partial")
    return [path for pattern in patterns for path in folder.rglob(pattern)]


def largest_difference(ours: Path, theirs: Path) -> float:
    with np.load(ours) as a, np.load(theirs) as b:
        return max(float(np.abs(np.asarray(a[name], "float64") - b[name]).max()) for name in b.files)


def compare_ledgers(place: Workplace, reference: Path) -> list[str]:
    """The step that counts is the last one of its number; each must have taken the samples of the undisturbed run.

    The running means come from a variable of the model that a checkpoint holds: a step that was applied twice, or
    left out, would show in every mean after it.
    """
    undisturbed = {line["step"]: line["mean"] for line in read_ledger(reference)}
    last = {line["step"]: line["mean"] for line in place.ledger()}
    steps = STEPS[place.plan.wide]
    missing = [step for step in range(1, steps + 1) if step not in last]
    wrong = [step for step in last if abs(last[step] - undisturbed[step]) > 1e-12 * abs(undisturbed[step])]
    # The kill may come after the step and before its line: then the step exists, but its line does not.
    excused = sum(name in ("kill-script", "kill-supervisor") for name, _ in place.plan.faults)
    found = [f"steps {wrong[:5]} took other samples"] if wrong else []
    return [*found, *([f"steps {missing[:5]} are missing in the ledger"] if len(missing) > excused else [])]


def reference_of(out: Path, plan: Plan) -> Path:
    """The undisturbed training with the same data, run once."""
    folder = out / f"reference-{plan.data}{'-wide' if plan.wide else ''}"
    if not (folder / "out.npz").exists():
        place = Workplace(folder, Plan(0, plan.data, plan.wide, ()))
        for name in ("TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"):
            place.environ.pop(name, None)
        code = place.start(sys.executable, *place.words).wait(place.longest)
        if code != 0:
            raise RuntimeError(f"the undisturbed training fails: see {folder / 'log'}")
    return folder


def run(out: Path, number: int, kind: str) -> Result:
    plan = draw(number)
    reference = reference_of(out, plan)
    place = Workplace(out / f"{kind}-{number}", plan)
    began, code, starts, problems, difference = time.monotonic(), -1, 0, [], None
    try:
        code, starts = run_oomph(place) if kind == "oomph" else run_baseline(place, backup=kind == "backup")
        if kind == "oomph":
            outcome, difference, problems = check(place, code, reference)
        else:
            difference = largest_difference(place.folder / "out.npz", reference / "out.npz")
            outcome = "right weights" if difference == 0 else "other weights"
    except TimeoutError as error:
        outcome = str(error)
    finally:
        place.end()
    executed = place.ledger()
    result = Result(
        number, kind, [name for name, _ in plan.faults], outcome, round(time.monotonic() - began, 1), len(executed),
        len({line["step"] for line in executed}), starts, difference, problems,
    )  # fmt: skip
    if outcome.startswith("right") and not problems:
        shutil.rmtree(place.folder)
    return result


def kept(path: Path) -> list[Result]:
    try:
        return [Result(**json.loads(line)) for line in path.read_text().splitlines()]
    except OSError:
        return []


def work_off(out: Path, todo: list[tuple[int, str]], jobs: int, minutes: float) -> None:
    """Run what has not been run yet, one line each as it comes; nothing is begun after so many minutes."""
    until = time.monotonic() + 60 * minutes

    def in_time(one: tuple[int, str]) -> Result | None:
        return run(out, *one) if time.monotonic() < until else None

    done = {(result.number, result.kind) for result in kept(out / "results.jsonl")}
    left = [one for one in todo if one not in done]
    for number, _ in left:
        reference_of(out, draw(number))
    with ThreadPoolExecutor(jobs) as pool, (out / "results.jsonl").open("a") as file:
        for result in pool.map(in_time, left):
            if result is None:
                continue
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            print(
                f"{result.kind} {result.number}: {result.outcome} {'; '.join(result.problems)} "
                f"({', '.join(result.faults)}; {result.seconds:.0f} s, {result.executed} steps)", flush=True,
            )  # fmt: skip


def report(results: list[Result]) -> str:
    """The tables."""
    ours = [result for result in results if result.kind == "oomph"]
    outcomes, faults = Counter(result.outcome for result in ours), Counter(n for r in ours for n in r.faults)
    lines = [f"{len(ours)} runs: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common())]
    lines += [f"faults: {', '.join(f'{name} {count}' for name, count in sorted(faults.items()))}", ""]
    lines += [
        "| | runs | right weights | useful of executed steps | median seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    compared = {r.number for r in results if r.kind == "restart"} & {r.number for r in results if r.kind == "backup"}
    for kind, words in (("oomph", "oomph run"), ("restart", "start again"), ("backup", "BackupAndRestore")):
        same = [result for result in results if result.kind == kind and result.number in compared]
        if same:
            useful, executed = sum(r.useful for r in same), sum(r.executed for r in same)
            right = sum(r.outcome == "right weights" for r in same)
            seconds = statistics.median(r.seconds for r in same)
            lines.append(f"| {words} | {len(same)} | {right} | {useful / executed:.3f} | {seconds:.0f} |")
    finished = [result for result in ours if result.outcome == "right weights"]
    if finished:
        share = sum(r.useful for r in finished) / sum(r.executed for r in finished)
        lines += ["", f"goodput of all finished runs: {share:.3f} of the executed steps were useful"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--baselines", type=int, default=30, help="schedules that the two baselines go through, too")
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time")
    parser.add_argument("--minutes", type=float, default=60, help="begin no run after that; the next call goes on")
    parser.add_argument("--out", type=Path, default=Path("build/chaos"))
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    plain = [n for n in range(1, args.runs + 1) if not draw(n).wide and not draw(n).expected_exit_code]
    todo = [(number, "oomph") for number in range(1, args.runs + 1)]
    todo += [(number, kind) for number in plain[: args.baselines] for kind in ("restart", "backup")]
    work_off(out, todo, args.jobs, args.minutes)
    results = kept(out / "results.jsonl")
    print(report(results))
    ours = [result for result in results if result.kind == "oomph"]
    return 0 if all(result.outcome.startswith("right") and not result.problems for result in ours) else 1


if __name__ == "__main__":
    sys.exit(main())
