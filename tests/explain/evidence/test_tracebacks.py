"""The user's own line in a traceback is never a line of oomph, wherever oomph is installed."""

from __future__ import annotations

import pytest

from oomph.explain.evidence.tracebacks import place_in_script


@pytest.mark.parametrize(
    "file",
    [
        "/home/user/.venv/lib/python3.11/site-packages/oomph/resume/training/leaving.py",
        "/home/user/oomph/src/oomph/resume/training/leaving.py",
        "src/oomph/exact_step/step/guarded_step.py",
        "/opt/wheels/oomph/resume/training/leaving.py",
        r"C:\work\oomph\hooks\intercept.py",
    ],
)
def test_oomph_frame_is_not_reported_as_the_error_location(file: str) -> None:
    assert place_in_script(f'  File "{file}", line 45, in give_up') == ""


@pytest.mark.parametrize("file", ["/home/user/oomph/train.py", "/home/user/resume/training/leaving.py"])
def test_script_frame_in_a_folder_named_like_oomph_is_the_error_location(file: str) -> None:
    assert place_in_script(f'  File "{file}", line 45, in main') == f"{file}:45 in main"
