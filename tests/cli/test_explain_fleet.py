"""`oomph explain FOLDER` compares the machines of its runs, and shows nothing that is not known."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oomph.cli import main
from oomph.journal.event import Event
from oomph.journal.events import AttemptStarted, Diagnosed, FindingMade
from oomph.journal.fact import Fact
from oomph.run.directory.run_directory import RunRecord

HARDWARE = Diagnosed(fault="hardware-fault", code="HWD801")


def gpus(host: str, number: int) -> list[dict[str, Any]]:
    return [{"index": n, "uuid": f"GPU-{host}-{n}", "name": "NVIDIA H100", "bus": ""} for n in range(number)]


def make(folder: Path, name: str, host: str, *facts: Fact, on: int = 0, script: str = "train.py") -> Path:
    run = folder / ".oomph" / "runs" / name
    (run / "journal").mkdir(parents=True)
    (run / "run.json").write_text(RunRecord((script,), "python", str(folder), "", status="finished").to_json())
    started = AttemptStarted(command=[script], host=host, gpus=gpus(host, on))
    (run / "journal" / "1-0-supervisor.jsonl").write_text(
        "".join(Event(fact, 1, 0, "supervisor", 1, 1.7e9).to_json() + "\n" for fact in (started, *facts))
    )
    return run


def fleet(folder: Path, bad: int = 6, runs: int = 12, on: int = 0) -> None:
    """Make a fleet of three hosts, one of which had a hardware fault in some of its runs, another in one."""
    for host in ("node-1", "node-2", "node-3"):
        for number in range(runs):
            faulty = {"node-2": number < bad, "node-3": number < 1}.get(host, False)
            make(folder, f"{host}-{number:02}", host, *[HARDWARE] * faulty, on=on)


def explained(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    assert main(["explain", str(folder)]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], folder: Path) -> dict[str, Any]:
    assert main(["explain", "--json", str(folder)]) == 0
    return dict(json.loads(capsys.readouterr().out)["fleet"])


def test_bad_host_is_named_with_its_counts_and_when_it_was_last_seen(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    fleet(tmp_path, bad=8)
    text = explained(capsys, tmp_path)
    assert "Faults that the host may have caused, in 36 runs on 3 hosts:" in text
    rows = [line.split("  ") for line in text.splitlines() if line.startswith("node-")]
    assert [row[0] for row in rows] == ["node-2", "node-3", "node-2 stands out: " + rows[2][0].partition(": ")[2]]
    assert "8 of 12" in text
    assert "66.7 %" in text
    assert "none on 1 other" in text
    sentence = " ".join(text[text.index("node-2 stands out") :].split())
    assert "8 of 12 runs there had hardware-fault, against 1 of 24 elsewhere" in sentence
    assert "with a probability of 0.0004 (Fisher's exact test, corrected for 3 comparisons of hosts)" in sentence
    assert "2023-11-14 22:13, in" in sentence
    assert text.splitlines()[-1].startswith("Next: oomph explain ")


def test_host_is_not_named_if_chance_explains_it(capsys, tmp_path):
    fleet(tmp_path, bad=2)
    text = " ".join(explained(capsys, tmp_path).split())
    assert "stands out: 2" not in text
    assert "No host stands out: chance alone leads to counts as unequal as these with a probability of 0.8" in text
    assert document(capsys, tmp_path)["outliers"] == []


def test_json_has_every_machine_and_the_same_figures(capsys, tmp_path):
    fleet(tmp_path, bad=8, on=1)
    found = document(capsys, tmp_path)
    assert (found["runs"], found["unread"], found["significant"]) == (36, 0, 0.01)
    assert [(host["host"], host["runs"], len(host["faults"])) for host in found["hosts"]] == [
        ("node-2", 12, 1),
        ("node-3", 12, 1),
        ("node-1", 12, 0),
    ]
    (fault,) = found["hosts"][0]["faults"]
    assert (fault["fault"], fault["runs"], fault["attempts"], fault["last_seen"]) == ("hardware-fault", 8, 8, 1.7e9)
    host, gpu = found["outliers"]
    assert (host["host"], host["faulty_runs"], host["runs"], host["elsewhere_faulty_runs"], host["elsewhere_runs"]) == (
        "node-2", 8, 12, 1, 24,
    )  # fmt: skip
    assert 0.0003 < host["chance"] < 0.0005
    assert (gpu["gpu"], gpu["index"], gpu["name"], gpu["host"]) == ("GPU-node-2-0", 0, "NVIDIA H100", "node-2")
    assert found["gpus"][0]["gpu"] == "GPU-node-2-0"


def test_gpu_of_one_host_is_compared_with_its_neighbours(capsys, tmp_path):
    for number in range(30):
        run = make(tmp_path, f"r{number:02}", "node-1", on=4)
        if number % 3 == 0:
            found = FindingMade(fault="hardware-fault", severity="critical", subject="GPU 2 (NVIDIA H100)")
            with (run / "journal" / "1-0-supervisor.jsonl").open("a") as journal:
                journal.write(Event(found, 1, 0, "supervisor", 3, 5.0).to_json() + "\n")
    text = explained(capsys, tmp_path)
    assert "Faults that the host" not in text, "there is no other host to compare it with"
    assert "in 30 runs on 4 GPUs; a run counts once on each of its GPUs:" in text
    assert "node-1 GPU 2 GPU-node-1-2 stands out: 10 of 30 runs there had hardware-fault, against 0 of 90" in text


def test_script_that_ran_on_no_other_host_is_mentioned(capsys, tmp_path):
    for number in range(12):
        make(tmp_path, f"a{number}", "node-1", HARDWARE, script="mine.py")
        make(tmp_path, f"b{number}", "node-2", script="train.py")
    assert "These scripts have run on no other host, so the fault may be theirs." in explained(capsys, tmp_path)


@pytest.mark.parametrize(
    "runs",
    [
        [("a", "node-1"), ("b", "node-2")],
        [("a", "node-1", Diagnosed(fault="shape-mismatch")), ("b", "node-2", Diagnosed(fault="nan-loss"))],
        [("a", "node-1", HARDWARE), ("b", "node-1", HARDWARE)],
        [("a", "", HARDWARE), ("b", "", HARDWARE)],
    ],
)
def test_list_stays_as_it_is_without_anything_to_compare(capsys, tmp_path, runs):
    for name, host, *facts in runs:
        make(tmp_path, name, host, *facts)
    assert len(explained(capsys, tmp_path).splitlines()) == len(runs) + 1


def test_hostile_names_are_shown_harmlessly(capsys, tmp_path):
    fleet(tmp_path)
    for number in range(40):
        make(tmp_path, f"x{number}", "\x1b[31mred\u202e\nnode-9 stands out: all of it\x00" + "y" * 5000, HARDWARE, on=1)
    text = explained(capsys, tmp_path)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\nnode-9" not in text
    assert "y" * 300 not in text


def test_unreadable_foreign_and_huge_journals_are_counted_and_cost_nothing(capsys, tmp_path):
    fleet(tmp_path, bad=8)
    runs = tmp_path / ".oomph" / "runs"
    for name, content in {
        "later": '{"schema":7,"event":"attempt-started"}\n',
        "damaged": '{"schema":1,"event":"attempt-started","attempt":1,"data":{"host":[1]}}\n\0\0\0{{{',
        "typed": json.dumps({"schema": 1, "event": "attempt-started", "attempt": 1, "rank": 0, "role": "supervisor",
                             "sequence": 1, "time": 1, "data": {"host": "h", "gpus": [{"uuid": 3}], "command": [1]}}),
        "empty": "",
    }.items():  # fmt: skip
        run = make(tmp_path, name, "node-9")
        (run / "journal" / "1-0-supervisor.jsonl").write_text(content)
    huge = make(tmp_path, "huge", "node-9", HARDWARE)
    os.truncate(huge / "journal" / "1-0-supervisor.jsonl", 1 << 40)
    (make(tmp_path, "pipe", "node-9") / "journal" / "1-0-supervisor.jsonl").unlink()
    os.mkfifo(runs / "pipe" / "journal" / "1-0-supervisor.jsonl")
    text = explained(capsys, tmp_path)
    assert "in 37 runs on 4 hosts:" in text
    assert "Not counted: 5 runs whose journal is unreadable or does not say where it ran" in text
    assert document(capsys, tmp_path)["unread"] == 5
