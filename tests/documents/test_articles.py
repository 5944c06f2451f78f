"""The articles' examples end as docs/how-to/articles.md says. Each command of that page is run here, and some more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from documented import ROOT, blocks, lines_of

LIMIT = 240
FIRST, *REST = [block for block in blocks("sh") if block.document.stem == "articles"]
ON_THE_PAGE = [line for block in REST for line in lines_of(block)]
PLENTY = "TF_CPU_BFC_MEM_LIMIT_IN_MB=16000 "


class Expected(NamedTuple):
    """How a command ends: its exit code, what it prints, and figures of the run's summary."""

    code: int = 0
    printed: str = ""
    """A pattern to find in stdout and stderr."""
    summary: dict[str, Any] | None = None


OUT_OF_MEMORY = Expected(1, "ResourceExhaustedError", {"faults": {"device-oom": 1}, "exit_code": 1})
EXPECTED = {
    "TF_CPU_BFC_MEM_LIMIT_IN_MB=100 oomph run 01_huge_tensors.py": OUT_OF_MEMORY,
    "TF_CPU_BFC_MEM_LIMIT_IN_MB=100 oomph run 01_huge_tensors.py --batched": Expected(0, "sum 40000000"),
    "oomph run 02_matmul_on_gpu.py": Expected(1, "InvalidArgumentError", {"faults": {"shape-mismatch": 1}}),
    "oomph run --checkpoint-every 4 02_matmul_on_gpu.py --abort": Expected(
        0, "finished", {"faults": {"abort": 1}, "restarts": 1, "steps": 48, "exactness": "verified"}
    ),
    PLENTY + "oomph run 03_copied_or_prefetched.py": Expected(0, r"input wait [6-9]\d%"),
    PLENTY + "oomph run 03_copied_or_prefetched.py --prefetched": Expected(0, r"input wait [1-4]?\d%"),
    "oomph run 04_custom_step.py": Expected(0, "updates 6 ", {"faults": {"device-oom": 1}, "exactness": "exact"}),
    "python 04_custom_step.py --by-hand": Expected(1, "ResourceExhaustedError"),
    "python 05_versions.py": Expected(0, "is_built_with_cudnn exists: False"),
    "oomph doctor": Expected(0),
    "oomph check 06_types_and_shapes.py || true": Expected(0, r"CHK401(.|\n)*y = y - 1"),
    "oomph check 06_types_and_shapes.py --fixed": Expected(0, "nothing found"),
    "python 07_retry_smaller.py --by-hand": Expected(0, r"updates 9[67] of 6"),
    "oomph run 07_retry_smaller.py": Expected(0, "updates 6 of 6", {"micro_batch": 128, "exactness": "exact"}),
    PLENTY + "oomph run 08_memory_over_time.py": Expected(0, "finished without a fault", {"steps": 150}),
    "oomph run 09_function_or_xla.py": Expected(0, r"by XLA: False(.|\n)*by XLA: True"),
    PLENTY + "oomph run --skip-corrupt 10_broken_pictures.py": Expected(0, r"pictures/077\.png(.|\n)*finished"),
    PLENTY + "oomph run 10_broken_pictures.py": Expected(1, "InvalidArgumentError"),
    PLENTY + "oomph plan --gpu 96MiB --batch 1,64 11_prefetched_batches.py || true": Expected(
        0, r"\n1 +.* no\n64 +.* no\n"
    ),
    PLENTY + "oomph run --report 12_leak.py": Expected(0, r"report\.html"),
    "python 13_small_test.py": Expected(0, "is right"),
    "oomph doctor --deep": Expected(0),
    PLENTY + "oomph run 14_kernel_dies.ipynb": Expected(0, "", {"faults": {"killed": 1}, "restarts": 1, "steps": 60}),
    "TF_CPU_BFC_MEM_LIMIT_IN_MB=200 oomph run 15_huge_layer.py": Expected(
        0, r"does not fit\n(.|\n)*1000 fits", {"faults": {"device-oom": 1}}
    ),
    "oomph run 16_step_that_returns_false.py": Expected(
        0,
        r"trained 0 of 2\n(.|\n)*the result .*caught an out-of-memory error at 16_step_that_returns_false\.py:32",
        {"faults": {"device-oom": 2}, "exactness": "unguarded"},
    ),
    "oomph run 16_step_that_returns_false.py --guarded": Expected(0, "trained 2 of 2", {"exactness": "exact"}),
    "oomph run 17_half_the_batch.py": Expected(
        0, "1536 results, 1536 pictures computed", {"faults": {"device-oom": 1}}
    ),
}
AFTER_A_RUN = {"oomph report --format json"}
"""Commands that look at what an earlier one has left."""


@pytest.fixture
def folder(tmp_path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path / "examples/articles"


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page in the folder of the examples, with what the first block of the page exports."""
    exported = [word.partition("=") for line in lines_of(FIRST) for word in line.split() if "=" in word]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OOMPH_", "TF_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = inherited | {name: value for name, _, value in exported} | {"PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=environ, timeout=LIMIT, capture_output=True, text=True)


def summary_of_the_run(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob(".oomph/runs/*/summary.json")
    return json.loads(path.read_text())


def test_every_command_of_the_page_has_an_expected_outcome():
    assert set(ON_THE_PAGE) <= EXPECTED.keys() | AFTER_A_RUN


def test_there_are_all_seventeen_examples():
    numbers = {path.name[:2] for path in (ROOT / "examples/articles").glob("[0-9]*")}
    assert numbers == {f"{number:02}" for number in range(1, 18)}


@pytest.mark.slow
@pytest.mark.parametrize("line", EXPECTED, ids=[line.removeprefix(PLENTY) for line in EXPECTED])
def test_example_ends_as_the_page_says(line, folder):
    expected = EXPECTED[line]
    done = run(line, folder)
    output = done.stdout + done.stderr
    assert done.returncode == expected.code, output[-3000:]
    assert re.search(expected.printed, output), output[-3000:]
    if expected.summary is not None:
        summary = summary_of_the_run(folder)
        assert {name: summary[name] for name in expected.summary} == expected.summary


def memory_in_the_report(folder: Path) -> list[float]:
    """Return the memory of the script's processes over time, as `oomph report` shows it."""
    charts = json.loads(run("oomph report --format json", folder).stdout)["charts"]
    curves = {curve["name"]: curve["values"] for chart in charts for curve in chart["curves"]}
    return [value for value in curves["the script's processes"] if value is not None]


@pytest.mark.slow
def test_report_shows_the_memory_of_a_leak(folder):
    assert run(PLENTY + "oomph run 12_leak.py", folder).returncode == 0
    memory = memory_in_the_report(folder)
    assert max(memory) - memory[len(memory) // 4] > 100e6


@pytest.mark.slow
def test_report_shows_memory_that_does_not_grow(folder):
    assert run(PLENTY + "oomph run 08_memory_over_time.py", folder).returncode == 0
    memory = memory_in_the_report(folder)
    assert max(memory) - memory[-1] < 100e6
