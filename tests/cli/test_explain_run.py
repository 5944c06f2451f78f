"""oomph explain RUN: the order of its output, which ends with a command to paste."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from oomph.cli import main
from oomph.journal.events import AttemptEnded, AttemptStarted, Decided, Diagnosed, RunEnded
from oomph.journal.journal import Journal
from oomph.run.directory.run_directory import RunRecord

RECORDED = Path(__file__).parents[1] / "hostile" / "run"
"""A run that finished after two faults, on a machine with a problem."""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "a run"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


def following(text: str) -> str:
    """Return the last line, which is the only one of its kind, without wrapping."""
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


def test_run_without_the_beginnings_of_its_attempts_is_explained_in_the_same_order(
    capsys: pytest.CaptureFixture[str], recorded: Path
) -> None:
    for path in recorded.glob("journal/*.jsonl"):
        path.write_text("".join(line for line in path.read_text().splitlines(True) if '"attempt-started"' not in line))
    text = told(capsys, str(recorded), "--full")
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


def gave_up(run: Path, action: str) -> Path:
    record = RunRecord(("train.py",), "python", str(run), "now", status="gave-up", attempts=1)
    run.mkdir()
    (run / "run.json").write_text(record.to_json())
    journal = Journal(run, 1, "supervisor")
    journal.write(AttemptStarted(command=["train.py"]))
    journal.write(AttemptEnded(returncode=-9, steps=4, saved=0, oom_kills=0))
    journal.write(Diagnosed(fault="killed", code="CRS201"))
    reason = "killed 3 times without any progress in between"
    journal.write(Decided(action=action, exit_code=93, reason=reason, ending={"fault": "killed"}))
    journal.write(RunEnded(exit_code=93))
    return run


def test_remedy_that_already_failed_in_the_run_is_not_suggested_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = " ".join(told(capsys, str(gave_up(tmp_path / "run", "give-up"))).split())
    advice = text.partition("what to do (")[2]
    assert "[oomph run does this for you, but gave up in this run]" in advice.partition(" 2. ")[2]
    assert "oomph run does this for you" not in advice.partition(" 2. ")[0]
    assert "[oomph run does this for you]" not in advice


def test_run_that_did_not_give_up_gets_the_usual_advice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = " ".join(told(capsys, str(gave_up(tmp_path / "run", "finish"))).split())
    assert "[oomph run does this for you]" in text
    assert "gave up in this run" not in text


def test_script_is_not_read_as_a_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "three.py"
    script.write_text("x = 1\n")
    assert main(["explain", str(script)]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{script} is a script, not a log: to run it, oomph run {script}" in line
