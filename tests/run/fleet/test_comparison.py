"""A machine stands out only if chance does not explain its count, and runs count, not restarts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest

from oomph.run.fleet.comparison import ANY, SIGNIFICANT, MachineComparison, chance, compare, gpu_visits, host_visits
from oomph.run.fleet.placed_run import PlacedAttempt, PlacedFault, PlacedGpu, PlacedRun


def runs(host: str, number: int, faulty: int = 0, *faults: str, script: str = "train") -> Iterator[PlacedRun]:
    """Yield runs on a host, the first of which have these faults."""
    for place in range(number):
        had = tuple(PlacedFault(fault, float(place), frozenset()) for fault in faults) if place < faulty else ()
        yield PlacedRun(Path(f"{host}-{place}"), script, (PlacedAttempt(host, (), had),))


def hosts(*groups: Iterable[PlacedRun]) -> MachineComparison:
    return compare(visit for group in groups for run in group for visit in host_visits(run))


def test_chance_is_fishers_exact_tail():
    for faulty, drawn, all_faulty, all_runs in [
        (3, 5, 8, 505),
        (1, 1, 1, 2),
        (0, 4, 2, 9),
        (7, 7, 7, 7),
        (5, 9, 12, 15),
    ]:
        ways = range(faulty, min(drawn, all_faulty) + 1)
        expected = sum(
            Fraction(comb(all_faulty, k) * comb(all_runs - all_faulty, drawn - k), comb(all_runs, drawn)) for k in ways
        )
        assert chance(faulty, drawn, all_faulty, all_runs) == pytest.approx(float(expected), rel=1e-9)
    assert 0 <= chance(4_000, 4_000, 4_000, 10_000) < 1e-300


def test_rate_counts_not_number():
    """A host that ran 500 and failed 5 times is better than one that ran 5 and failed 3."""
    found = hosts(
        runs("busy", 500, 5, "hardware-fault"), runs("bad", 5, 3, "hardware-fault"), runs("good", 500, 4, "killed")
    )
    assert [outlier.machine for outlier in found.outliers] == ["bad"]


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([("a", 1, 1), ("b", 1, 0)], "one run each"),
        ([("a", 4, 2), ("b", 4, 0)], "too few runs"),
        ([("a", 100, 5), ("b", 100, 2)], "a difference that chance explains"),
        ([("a", 100, 100), ("b", 100, 100)], "all runs on all hosts"),
        ([("a", 100, 3)], "nothing to compare with"),
    ],
)
def test_host_is_not_blamed_without_support(groups, why):
    found = hosts(*(runs(host, number, faulty, "hardware-fault") for host, number, faulty in groups))
    assert found.outliers == (), why
    assert found.least_chance >= SIGNIFICANT


def test_sound_fleets_rarely_have_an_outlier():
    """Of fleets in which every run has the same risk, at most one in a hundred has an outlier."""
    dice, wrong = random.Random(1), 0
    for _ in range(300):
        groups = [
            runs(f"h{host}", n, sum(dice.random() < 0.03 for _ in range(n)), "hang") for host, n in enumerate([40] * 12)
        ]
        wrong += bool(hosts(*groups).outliers)
    assert wrong <= 3


def test_restarts_of_one_run_count_once():
    """A fault that recurs in each restart of a run is one observation of the machine."""
    fault = (PlacedFault("hang", 0.0, frozenset()),)
    restarted = PlacedRun(Path("r"), "train", (PlacedAttempt("a", (), fault),) * 50)
    found = hosts([restarted], runs("a", 9), runs("b", 60))
    assert found.outliers == ()
    (count,) = found.machines[0].faults
    assert (count.runs, count.attempts, found.machines[0].runs, found.machines[0].attempts) == (1, 50, 10, 59)


def test_several_kinds_of_fault_count_together():
    groups = [runs("bad", 2, 2, fault) for fault in ("hang", "killed", "driver-failure", "hardware-fault")]
    found = hosts(*groups, runs("good", 200, 2, "hang"))
    (outlier,) = found.outliers
    assert (outlier.machine, outlier.worst.fault, outlier.worst.runs, outlier.runs) == ("bad", ANY, 8, 8)
    assert (outlier.elsewhere_faulty, outlier.elsewhere_runs) == (2, 200)


def test_faults_that_merely_slow_down_hide_no_others():
    """Where every GPU gets hot, a broken one must still show; and one that alone gets hot shows too."""
    hot = "thermal-throttle"
    found = hosts(runs("bad", 30, 9, "hardware-fault", hot), *(runs(f"h{each}", 30, 30, hot) for each in range(5)))
    assert [(each.machine, each.worst.fault) for each in found.outliers] == [("bad", "hardware-fault")]
    found = hosts(runs("hot", 30, 12, hot), runs("cool", 300, 3, hot))
    assert [(each.machine, each.worst.fault) for each in found.outliers] == [("hot", hot)]


@pytest.mark.parametrize(("elsewhere", "own"), [("other", True), ("train", False)])
def test_script_that_ran_nowhere_else_may_be_the_cause(elsewhere, own):
    found = hosts(runs("a", 20, 20, "hang", script="train"), runs("b", 50, script=elsewhere))
    assert [outlier.own_scripts for outlier in found.outliers] == [own]


def test_gpu_is_compared_with_the_other_gpus():
    gpus = tuple(PlacedGpu(f"GPU-{number}", number, "NVIDIA H100", "") for number in range(8))
    broken = PlacedFault("hardware-fault", 5.0, frozenset({"GPU-3"}))
    unknown = PlacedFault("hardware-fault", 9.0, frozenset())
    each = [PlacedRun(Path(str(n)), "train", (PlacedAttempt("a", gpus, (broken,) * (n < 6)),)) for n in range(40)]
    each.append(PlacedRun(Path("u"), "train", (PlacedAttempt("a", gpus, (unknown,)),)))
    found = compare(visit for run in each for visit in gpu_visits(run))
    assert [(outlier.machine, outlier.worst.runs, outlier.worst.last) for outlier in found.outliers] == [
        ("GPU-3", 6, 5.0)
    ]
    assert found.machines[0].runs == 41
