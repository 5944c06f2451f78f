"""The command line of `oomph rehearse`, up to where TensorFlow would begin."""

from __future__ import annotations

import pytest

from oomph import cli
from oomph.rehearsal.faults import NAMES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.py"], "no such script: missing.py"),
        ([], "name the script to run"),
        (["--faults", "meteor", "train.py"], "no fault meteor to rehearse: there are oom, kill"),
        (["--steps", "1", "train.py"], "--steps takes a number of at least 2, or all, not 1"),
        (["--steps", "many", "train.py"], "--steps takes a number"),
        (["--keep", "full", "train.py"], "full is not empty"),
        (["--keep", "train.py/x", "train.py"], "can not be written"),
    ],
)
def test_what_can_not_be_done_is_one_sentence(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    assert cli.main(["rehearse", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("raise SystemExit('no data here')", 3, "fails without any fault, with exit code 1:\nno data here"),
        ("print('no training')", 3, "not taken two training steps"),
    ],
)
def test_a_script_that_does_not_train_is_said_at_once(tmp_path, monkeypatch, capsys, text, code, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(text)
    assert cli.main(["rehearse", "train.py"]) == code
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_the_help_names_every_fault(capsys):
    assert cli.main(["rehearse", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)
    assert "example: oomph rehearse" in out
