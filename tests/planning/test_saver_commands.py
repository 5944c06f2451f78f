"""The commands of a plan can be pasted."""

from __future__ import annotations

from plans import WORDS, around, plan

from oomph.planning.commands import SCRIPT, with_script
from oomph.planning.estimate import Saver
from oomph.planning.report import as_text


def test_saver_command_contains_the_script_and_its_arguments() -> None:
    savers = (
        Saver("micro-batches of 8", around(1), "changes nothing", f"oomph run --micro-batch 8 {SCRIPT}"),
        Saver("SGD instead", around(1), "another optimizer", 'optimizer="sgd",  # in model.compile()'),
    )
    made = with_script(plan(savers=savers), ("train.py", "--name", "two words"))
    assert [saver.line for saver in made.savers] == [
        "oomph run --micro-batch 8 train.py --name 'two words'",
        'optimizer="sgd",  # in model.compile()',
    ]
    assert not [line for line in as_text(made, WORDS, 100) if "..." in line or SCRIPT in line]
