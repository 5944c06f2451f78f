"""The last lines printed by `oomph run` count as evidence in a log that contains nothing else."""

from __future__ import annotations

import pytest

from oomph.explain.diagnose import diagnose_log
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.render import as_text
from oomph.run.report.account import account
from oomph.run.report.summary import Summary

STARTED = "oomph: running gan.py with /usr/bin/python3, run directory runs/a"
STOPWATCH = "    47.2 "


def closing_lines(faults: dict[str, int], run: str | None = "runs/a", gave_up: str = "", again: str = "") -> list[str]:
    """Return what oomph prints at the end of a run with these faults."""
    summary = Summary(
        attempts=2,
        faults=faults,
        recoveries=1,
        restarts=1,
        steps=9,
        steps_repeated=0,
        steps_reached=9,
        steps_saved=9,
        fits_not_kept=0,
        micro_batch=4,
        exactness="failed" if gave_up else "exact",
        exit_code=93 if gave_up else 75 if again else 0,
        seconds=47.0,
        seconds_recovering=3.0,
        device_peak_bytes=None,
        host_peak_bytes=None,
        gave_up=gave_up,
    )
    return [f"oomph: {line}" for line in account(summary, run, again)]


def explained(lines: list[str]) -> list[Diagnosis]:
    return list(diagnose_log("\n".join(lines).encode()))


@pytest.mark.parametrize("prefix", ["", STOPWATCH, "[rank0]: "])
def test_log_of_a_run_that_gave_up_is_explained_by_its_last_lines(prefix: str) -> None:
    lines = [STARTED, *closing_lines({"device-oom": 3}, gave_up="one sample does not fit")]
    first = explained([prefix + line for line in lines])[0]
    assert (first.name, first.captured["seen_by_oomph"]) == ("device-oom", "3 times")
    assert first.captured["run_directory"] == "runs/a"
    assert [fact.text.partition("oomph: ")[2][:13].strip() for fact in first.evidence] == ["what happened", "gave up"]
    assert first.outlasted_oomph


def test_text_points_to_the_run_directory() -> None:
    text = as_text(explained([STARTED, *closing_lines({"device-oom": 3})]), "log", width=200)
    assert text.splitlines()[-1].startswith("Next: oomph explain runs/a  (")


def test_every_fault_of_a_recovered_run_is_listed() -> None:
    lines = closing_lines({"device-oom": 2, "host-oom": 1, "unrelated": 1})
    found = {diagnosis.name: diagnosis for diagnosis in explained(lines) if diagnosis.evidence}
    assert {name: found[name].captured["seen_by_oomph"] for name in ("device-oom", "host-oom")} == {
        "device-oom": "twice",
        "host-oom": "once",
    }
    assert "unrelated" not in found
    assert not any(diagnosis.outlasted_oomph for diagnosis in found.values())


def test_log_line_and_oomphs_own_line_lead_to_a_single_diagnosis() -> None:
    report = "ResourceExhaustedError: OOM when allocating tensor with shape[32,512] and type float"
    first = explained([report, *closing_lines({"device-oom": 1})])[0]
    assert [fact.text[:8] for fact in first.evidence[:2]] == ["Resource", "oomph: w"]


def test_run_directory_is_read_from_the_resume_command() -> None:
    again = "TF_X=0 oomph run --resume='my runs/a' gan.py"
    first = explained(closing_lines({"device-oom": 1}, again=again))[0]
    assert first.captured["run_directory"] == "my runs/a"
    assert "oomph explain 'my runs/a'" in as_text([first], "log", width=200)


def test_run_without_a_directory_is_explained_without_one() -> None:
    first = explained(closing_lines({"device-oom": 1}, run=None))[0]
    assert "run_directory" not in first.captured
    assert "Next: oomph explain OOM101" in as_text([first], "log", width=200)


def test_later_account_replaces_an_earlier_one_only_for_the_same_run() -> None:
    same = [*closing_lines({"device-oom": 1}), *closing_lines({"device-oom": 2})]
    assert [len(explained(lines)[0].evidence) for lines in (same, [*same, *closing_lines({"device-oom": 5}, "b")])] == [
        1,
        2,
    ]


def test_log_of_a_faultless_run_yields_no_fault() -> None:
    assert explained([STARTED, *closing_lines({})]) == []
    assert explained([STARTED, "oomph: what happened  terminated from outside once (oomph was terminated too)"]) == []


def test_lines_in_the_middle_of_a_long_log_are_found() -> None:
    filler = [f"note {number} of the script: {'x' * (number % 70)}" for number in range(3000)]
    lines = [*filler, STARTED, *closing_lines({"device-oom": 3}), *filler]
    assert explained(lines)[0].captured["run_directory"] == "runs/a"
