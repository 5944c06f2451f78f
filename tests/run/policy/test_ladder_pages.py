"""The page that explains the decisions lists every fault and every rung correctly."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomph.run.policy.ladder import LADDERS, OPT_IN

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "decisions.md").read_text()


@pytest.mark.parametrize("fault", LADDERS)
def test_documented_fault_ladder_matches_the_code(fault: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{fault}`" in line.split("|")[1]]
    assert row.split("|")[2].strip() == ", ".join(LADDERS[fault])


def test_flags_that_alter_the_mathematics_are_documented_as_such() -> None:
    for rung, flag in OPT_IN.items():
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {rung} |")]
        assert flag in row
        assert "**altered**" in row
