"""The demonstration's claims, and whether the measurements support them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oomph.demo.scenario import BATCH, CHECKPOINT_EVERY, STEPS

OUT_OF_MEMORY = "ResourceExhaustedError"
LEARNED = 0.9
"""The minimum test accuracy: below it, training has failed, and equal results prove nothing."""
NOISE_FACTOR = 10
"""The largest difference allowed in the float32 result, as a multiple of the effect of summation order."""
NOISE_LIMIT = 1e-3
"""The largest difference that summation order alone may cause; beyond it, training is too noisy to compare."""
FLOAT64_LIMIT = 1e-12


@dataclass(frozen=True)
class ChildEnding:
    """The outcome of a child process."""

    returncode: int
    seconds: float
    error: str = ""
    """The line in its output that names the error; empty if it succeeded."""


@dataclass(frozen=True)
class Survived:
    """The result of a run under oomph, taken from the run's summary."""

    ended: ChildEnding
    killed: bool
    """True if the demonstration killed the script."""
    ooms: int = 0
    restarts: int = 0
    steps: int = 0
    steps_repeated: int = 0
    micro_batch: int | None = None
    exactness: str = ""

    @classmethod
    def of(cls, ended: ChildEnding, killed: bool, summary: dict[str, Any]) -> Survived:
        """Build the result from a summary.json."""
        return cls(
            ended,
            killed,
            ooms=int(summary.get("faults", {}).get("device-oom", 0)),
            restarts=int(summary.get("restarts", 0)),
            steps=int(summary.get("steps", 0)),
            steps_repeated=int(summary.get("steps_repeated", 0)),
            micro_batch=summary.get("micro_batch"),
            exactness=str(summary.get("exactness", "")),
        )


@dataclass(frozen=True)
class Compared:
    """The comparison of a result with the undisturbed one."""

    accuracies: tuple[float, float]
    """The test accuracies of the undisturbed training run and of the one compared with it."""
    dtypes: tuple[str, ...]
    difference: float
    """The largest difference between two corresponding weights."""


@dataclass(frozen=True)
class DemoTrial:
    """All measurements at one precision."""

    name: str
    survived: Survived
    compared: Compared | None
    """The comparison, or None if the run under oomph left no result."""


@dataclass(frozen=True)
class Measured:
    """All measurements."""

    plain: ChildEnding
    single: DemoTrial
    double: DemoTrial
    noise: float
    """The largest difference between weights that summation order alone causes."""


@dataclass(frozen=True)
class Claim:
    """One claim, and the measurement that supports or refutes it."""

    text: str
    measured: str
    held: bool


def judge(measured: Measured) -> list[Claim]:
    """Judge every claim of the demonstration, in order."""
    return [
        _plain_dies(measured.plain),
        *_survives(measured.single),
        *_single_is_exact(measured),
        *_survives(measured.double),
        *_double_is_exact(measured.double),
    ]


def rows(measured: Measured) -> list[list[str]]:
    """Return the runs side by side, as rows of a table."""
    return [
        ["", "undisturbed", "plain python", "oomph run", "in float64"],
        ["outcome", "finished", _brief(measured.plain), *(_brief(t.survived.ended) for t in _trials(measured))],
        ["test accuracy", _accuracy(measured.single, 0), "-", *(_accuracy(t, 1) for t in _trials(measured))],
        ["out-of-memory errors", "0", _count_plain(measured.plain), *(str(t.survived.ooms) for t in _trials(measured))],
        ["killed by SIGKILL", "no", "no", *("yes" if t.survived.killed else "no" for t in _trials(measured))],
        ["restarts", "0", "0", *(str(t.survived.restarts) for t in _trials(measured))],
        ["steps done", str(STEPS), "-", *(str(t.survived.steps) for t in _trials(measured))],
        ["steps repeated", "0", "-", *(str(t.survived.steps_repeated) for t in _trials(measured))],
        ["micro-batch", "-", "-", *(str(t.survived.micro_batch or "-") for t in _trials(measured))],
        ["largest weight difference", "0", "-", *(_difference(t) for t in _trials(measured))],
        ["  may be at most", "", "", f"{_bound(measured):.1e}", f"{FLOAT64_LIMIT:.0e}"],
    ]


def _plain_dies(plain: ChildEnding) -> Claim:
    return Claim(
        "plain python dies at the memory limit",
        plain.error or f"exit code {plain.returncode}",
        plain.returncode != 0 and OUT_OF_MEMORY in plain.error,
    )


def _survives(trial: DemoTrial) -> Iterator[Claim]:
    run, name = trial.survived, trial.name
    yield Claim(
        f"{name}: oomph runs the same script to completion",
        _outcome(run.ended),
        run.ended.returncode == 0 and trial.compared is not None,
    )
    yield Claim(
        f"{name}: recovered from a real out-of-memory error by using micro-batches",
        f"{run.ooms} occurred, micro-batches of {run.micro_batch}",
        run.ooms >= 1 and run.micro_batch is not None and run.micro_batch < BATCH,
    )
    yield Claim(
        f"{name}: killed by SIGKILL midway, restarted once",
        f"{'killed' if run.killed else 'not killed'}, restarts: {run.restarts}",
        run.killed and run.restarts == 1,
    )
    yield Claim(
        f"{name}: at most {CHECKPOINT_EVERY} of {STEPS} steps repeated",
        f"{run.steps_repeated} of {run.steps}, resumed: {run.exactness}",
        run.steps == STEPS and run.steps_repeated <= CHECKPOINT_EVERY and run.exactness in ("exact", "verified"),
    )
    yield _same_accuracy(trial)


def _same_accuracy(trial: DemoTrial) -> Claim:
    text = f"{trial.name}: the same test accuracy as the undisturbed run"
    if trial.compared is None:
        return Claim(text, "no result", False)
    expected, found = trial.compared.accuracies
    return Claim(text, f"{found:.4f}, undisturbed {expected:.4f}", found == expected and expected >= LEARNED)


def _single_is_exact(measured: Measured) -> Iterator[Claim]:
    noise, compared = measured.noise, measured.single.compared
    yield Claim(
        "float32: the order of summation alone changes little", f"{noise:.1e} (at most {NOISE_LIMIT:.0e})",
        0 <= noise <= NOISE_LIMIT,
    )  # fmt: skip
    yield Claim(
        f"float32: weights differ at most {NOISE_FACTOR} times as much as with a different summation order",
        f"{_difference(measured.single)} (at most {_bound(measured):.1e})",
        compared is not None and compared.dtypes == ("float32",) and compared.difference <= _bound(measured),
    )


def _double_is_exact(trial: DemoTrial) -> Iterator[Claim]:
    compared = trial.compared
    yield Claim(
        f"float64: weights differ by at most {FLOAT64_LIMIT:.0e}",
        _difference(trial),
        compared is not None and compared.dtypes == ("float64",) and compared.difference <= FLOAT64_LIMIT,
    )


def _trials(measured: Measured) -> Sequence[DemoTrial]:
    return measured.single, measured.double


def _bound(measured: Measured) -> float:
    return NOISE_FACTOR * measured.noise


def _outcome(ended: ChildEnding) -> str:
    if ended.returncode == 0:
        return "finished"
    return OUT_OF_MEMORY if OUT_OF_MEMORY in ended.error else f"exit code {ended.returncode}"


def _brief(ended: ChildEnding) -> str:
    return _outcome(ended).replace(OUT_OF_MEMORY, "out of memory")


def _count_plain(plain: ChildEnding) -> str:
    return "1" if OUT_OF_MEMORY in plain.error else "0"


def _accuracy(trial: DemoTrial, which: int) -> str:
    return "-" if trial.compared is None else f"{trial.compared.accuracies[which]:.4f}"


def _difference(trial: DemoTrial) -> str:
    return "-" if trial.compared is None else f"{trial.compared.difference:.1e}"
