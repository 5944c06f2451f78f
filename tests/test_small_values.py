"""Values print on one short, readable line."""

from __future__ import annotations

import pytest

import oomph
from oomph.process.isolation.isolate import Isolated
from oomph.run.report.summary import summarise
from oomph.run.supervisor.closing import RunOutcome

DIAGNOSES = oomph.diagnose(MemoryError())
SUMMARY = summarise([], 1)


class Hostile:
    def __repr__(self) -> str:
        raise ValueError("no repr")


VALUES = {
    "diagnoses": DIAGNOSES,
    "fault": DIAGNOSES[0].fault,
    "summary": SUMMARY,
    "outcome": RunOutcome(1, SUMMARY),
    "large": Isolated(ok=True, value=list(range(100_000)), stderr="x" * 1_000_000),
    "lines": Isolated(ok=True, value="a\nb" * 10_000),
    "hostile": Isolated(ok=True, value=Hostile()),
    "failed": Isolated(ok=False, error=ValueError("x" * 100_000), diagnoses=DIAGNOSES),
}


@pytest.mark.parametrize("name", VALUES)
def test_repr_of_every_value_is_one_short_line(name: str) -> None:
    text = repr(VALUES[name])
    assert len(text) < 300
    assert "\n" not in text


@pytest.mark.parametrize("kind", [Isolated, RunOutcome])
def test_short_repr_is_documented_in_the_class_docstring(kind: type) -> None:
    assert "Its repr is short: " in str(kind.__doc__)


def test_diagnosis_names_its_fault_in_both_str_and_repr() -> None:
    assert repr(DIAGNOSES[0]).startswith("Diagnosis(OOM110 host-oom, cause, ")
    assert str(DIAGNOSES[0]).startswith("host-oom (OOM110), cause, ")
    assert str(DIAGNOSES[0]).endswith(DIAGNOSES[0].fault.summary)


def test_isolated_function_result_reads_as_a_sentence() -> None:
    assert str(Isolated(ok=True, value=3, seconds=1.25)) == "the function returned 3 (1.2 s)"
    assert str(Isolated(ok=False, error=ValueError("no"), seconds=2.0)) == "the function raised ValueError: no (2.0 s)"


def test_run_outcome_reads_as_a_sentence() -> None:
    assert str(RunOutcome(1, SUMMARY)).startswith("exit code 1: failed: 0 steps in 0 s, no fault, ")
