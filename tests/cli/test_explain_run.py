"""oomph explain RUN: the order of what it prints, and its last line, which is a command to paste."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from oomph.cli import main
from oomph.journal.events import AttemptEnded, AttemptStarted
from oomph.journal.journal import Journal
from oomph.run.directory.run_directory import RunRecord

RECORDED = Path(__file__).parents[1] / "hostile" / "run"
"""It finished, after two faults, on a machine with a problem."""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "a run"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def following(text: str) -> str:
    """The last line, which is the only one of its kind, as if it had not been wrapped."""
    assert text.count("\nNext:") == 1
    return " ".join(text.rpartition("\nNext:")[2].split())


def test_suggested_command_is_shell_quoted(capsys: pytest.CaptureFixture[str], recorded: Path) -> None:
    last = following(told(capsys, str(recorded)))
    assert last == f"oomph explain {shlex.quote(str(recorded))} --full (the evidence of every fault, and what to do" + (
        " about it)"
    )
    assert shlex.split(last.partition(" (")[0])[2] == str(recorded)


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_machine_section_precedes_the_next_command(
    capsys: pytest.CaptureFixture[str], recorded: Path, options: tuple[str, ...]
) -> None:
    text = told(capsys, str(recorded), *options)
    assert text.index("The machine when the run started:\nFAIL") < text.index("\n\nNext:")
    assert following(text).startswith("oomph explain ")


def test_run_without_a_story_is_printed_in_the_same_order(capsys: pytest.CaptureFixture[str], recorded: Path) -> None:
    for path in recorded.glob("journal/*.jsonl"):
        path.write_text("".join(line for line in path.read_text().splitlines(True) if '"attempt-started"' not in line))
    text = told(capsys, str(recorded))
    assert text.index("The machine when the run started:\nFAIL") < text.index("\n\nNext:")
    assert following(text).startswith("oomph explain OOM101 (")


@pytest.mark.parametrize("options", [(), ("--full",)])
def test_unfinished_run_gets_a_single_resume_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    record = RunRecord(("train.py",), "python", str(Path.cwd()), "", status="running", attempts=1)
    (tmp_path / "run.json").write_text(record.to_json())
    (tmp_path / "checkpoints" / "step-1-fit0-epoch0-step1").mkdir(parents=True)
    supervisor = Journal(tmp_path, 1, "supervisor")
    supervisor.write(AttemptStarted())
    supervisor.write(AttemptEnded(returncode=-9, seconds=1.0, steps=0, saved=0, oom_kills=1))
    last = following(told(capsys, str(tmp_path), *options))
    assert last == f"oomph run --resume={tmp_path} train.py (resumes from its last checkpoint)"


def test_run_remedies_contain_its_own_command(capsys: pytest.CaptureFixture[str], recorded: Path) -> None:
    record = recorded / "run.json"
    document = json.loads(record.read_text())
    document |= {"command": ["my train.py", "--epochs", "3"], "options": ["--checkpoint-every", "5m"]}
    record.write_text(json.dumps(document))
    text = told(capsys, str(recorded), "--full")
    assert "oomph run --checkpoint-every 5m 'my train.py' --epochs 3\n" in text
    assert "oomph run train.py" not in text.partition("The machine when the run started:")[0]


def test_recovered_run_log_is_reported_as_recovered(tmp_path, capsys):
    end = "oomph: the end        the script {}, 90 steps, 24 s, 9 checkpoints of 649 KiB (1.0% of the time)\n"
    killed = "oomph: the script was killed by SIGKILL at fit 1, epoch 8, step 4; starting attempt 2\n"
    for number, (text, is_told) in enumerate(
        [
            (killed + end.format("finished"), True),
            (killed + end.format("failed with an error of its own"), False),
            (killed + end.format("finished") + killed + end.format("failed with an error of its own"), False),
            (killed, False),
            (killed + f"it printed {end.format('finished')}", False),
        ]
    ):
        log = tmp_path / f"{number}.log"
        log.write_text(text)
        assert main(["explain", str(log)]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert ("; oomph kept the run alive, and the script finished, all 90 steps" in told) is is_told
