"""The command of a run in the commands of remedies."""

from __future__ import annotations

import pytest

from oomph.explain.matching.own_command import OwnCommand

SCRIPT = ("my script.py", "--epochs", "3")
PROGRAM = ("--", "env", "A=1", "python", "t.py")


@pytest.mark.parametrize(
    ("words", "command", "typed"),
    [
        (SCRIPT, "oomph run train.py", "oomph run 'my script.py' --epochs 3"),
        (SCRIPT, "A=1 oomph run train.py    # docker run", "A=1 oomph run 'my script.py' --epochs 3    # docker run"),
        (SCRIPT, "oomph run --resume train.py", "oomph run --resume 'my script.py' --epochs 3"),
        (SCRIPT, "A=1 python train.py", "A=1 python 'my script.py' --epochs 3"),
        (SCRIPT, "python -X faulthandler train.py", "python -X faulthandler 'my script.py' --epochs 3"),
        (SCRIPT, "tf_upgrade_v2 --infile train.py", "tf_upgrade_v2 --infile train.py"),
        (SCRIPT, "nvidia-smi", "nvidia-smi"),
        (("-m", "my.train"), "python train.py", "python -m my.train"),
        (PROGRAM, "oomph run train.py", "oomph run -- env A=1 python t.py"),
        (PROGRAM, "A=1 python train.py", "A=1 env A=1 python t.py"),
        (PROGRAM, "python -X faulthandler train.py", "python -X faulthandler train.py"),
        ((), "oomph run train.py", "oomph run train.py"),
    ],
)
def test_own_command_replaces_the_placeholder_train_py(words: tuple[str, ...], command: str, typed: str) -> None:
    assert OwnCommand((), words).put_into(command) == typed


def test_backslash_in_the_command_is_kept() -> None:
    assert OwnCommand((), (r"a\1.py",)).put_into("python train.py") == r"python 'a\1.py'"


def test_run_options_are_kept_in_the_command() -> None:
    own = OwnCommand(("--checkpoint-every", "5m"), ("t.py",))
    assert own.put_into("oomph run train.py") == "oomph run --checkpoint-every 5m t.py"
    assert own.put_into("python train.py") == "python t.py"
