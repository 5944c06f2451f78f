"""The `oomph rehearse` command line, up to the point where TensorFlow would start."""

from __future__ import annotations

import json

import pytest

from oomph import cli
from oomph.rehearse.judge import NAMES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.py"], "no such script: missing.py"),
        ([], "specify the script to rehearse: oomph rehearse train.py"),
        (["--python", "/nope", "train.py"], "no such Python: /nope"),
        (["--python", "./no-python", "--faults", "kill", "train.py"], "no-python cannot be started"),
        (["--checkpoint-every=0", "train.py"], "--checkpoint-every expects steps (100) or a time"),
        (["--faults", "meteor", "train.py"], "unknown fault meteor; oomph can rehearse oom, kill"),
        (["--steps", "1", "train.py"], "--steps expects a number of at least 2, or all, not 1"),
        (["--steps", "many", "train.py"], "--steps expects a number"),
        (["--keep", "full", "train.py"], "full is not empty"),
        (["--keep", "train.py/x", "train.py"], "cannot be written"),
    ],
)
def test_impossible_rehearsal_is_rejected_with_a_one_line_error(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "no-python").write_bytes(b"\x7fELF")
    (tmp_path / "no-python").chmod(0o755)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    assert cli.main(["rehearse", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.removeprefix("rehearsal: 1 fault, in one run; first, an undisturbed run\n").count("\n") == 1


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("raise SystemExit('no data here')", 3, "fails without any fault, with exit code 1:\nno data here"),
        ("print('no training')", 3, "oomph: fewer than two training steps were seen in the script"),
    ],
)
def test_script_without_training_is_reported_immediately(tmp_path, monkeypatch, capsys, text, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(text)
    assert cli.main(["rehearse", "train.py"]) == code
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_script_stopped_at_the_time_limit_gets_a_hint_to_raise_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    assert cli.main(["rehearse", "--limit=1", "--json", "slow.py", "9"]) == 3
    said = capsys.readouterr()
    reason = "the script had not finished after 1 s, even without a fault: set a longer --limit"
    assert said.err.endswith(f"oomph: {reason}\n")
    assert json.loads(said.out) == {"schema": 1, "survives": None, "reason": reason, "faults": []}


def test_rehearse_help_lists_every_fault(capsys):
    assert cli.main(["rehearse", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)
    assert "example: oomph rehearse" in out
