"""Two real workers, one of which is late: the report, `watch` and Prometheus show both, and name the late one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from oomph import cli
from oomph.monitor.pace import read_paces
from oomph.monitor.straggler import find_straggler

pytestmark = pytest.mark.slow
SCRIPT = "late_worker.py"


def _trained(work: Any, *arguments: str) -> Any:
    work.script(SCRIPT)
    ended = work.oomph("--workers", "2", SCRIPT, *arguments)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended


def test_late_step_of_one_worker_is_named_by_the_report_and_by_watch(work, capsys):
    ended = _trained(work, "fit", "1", "step", "0.05")
    assert cli.main(["report", str(ended.folder)]) == 0
    page = (ended.folder / "report.html").read_text()
    (late,) = re.findall(r"Worker 1 was late by (\d+\.\d) ms in every step of \d+\.\d ms: its own part takes", page)
    assert 35 < float(late) < 90
    assert len(re.findall(r'class="track lane', page)) == 2
    capsys.readouterr()
    assert cli.main(["watch", "--once", "--json", str(ended.folder)]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert job["straggler"]["rank"] == 1
    assert [each["state"] for each in job["workers"]] == ["ended", "ended"]


@pytest.mark.parametrize(("what", "is_for_data"), [("between", False), ("data", True)])
def test_late_data_and_own_code_between_steps_of_a_loop_are_told_apart(work, what, is_for_data):
    ended = _trained(work, "loop", "0", what, "0.05")
    found = find_straggler({pace.rank: pace.readings for pace in read_paces(ended.folder)})
    assert found is not None
    assert (found.rank, found.is_waiting_for_data) == (0, is_for_data)


def test_healthy_workers_have_no_straggler(work):
    ended = _trained(work, "fit", "9", "step", "0.05")
    paces = read_paces(ended.folder)
    assert [pace.newest.steps > 100 for pace in paces] == [True, True]
    assert min(len(pace.readings) for pace in paces) > 10, "there was enough to tell"
    assert find_straggler({pace.rank: pace.readings for pace in paces}) is None
