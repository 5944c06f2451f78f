"""End states of finished fits and unreadable checkpoints: what is reported about them, and when."""

from __future__ import annotations

import pytest

from oomph.checkpoint.final_checkpoints import FinalCheckpoints, of_end_states, of_steps

BROKEN = "tensors.bin does not match its checksum"


def test_small_end_states_are_not_reported():
    states = FinalCheckpoints()
    assert [states.add(1 << 20) for _ in range(100)] == [""] * 100


def test_large_end_states_are_reported_at_each_doubling():
    states = FinalCheckpoints()
    said = [line for _ in range(40) if (line := states.add(50 << 20))]
    assert [line.partition(" in the run")[0] for line in said] == [
        "the end states of 4 finished fits take 210 MB",
        "the end states of 8 finished fits take 419 MB",
        "the end states of 16 finished fits take 839 MB",
        "the end states of 32 finished fits take 1678 MB",
    ]
    assert all("are deleted when the run finishes" in line for line in said)
    assert FinalCheckpoints().add(1 << 40), "a single one that is large"


def test_replacement_for_a_damaged_checkpoint_is_reported():
    (said,) = of_steps([("step-2", BROKEN)], "step-1")
    assert said == f"checkpoint step-2 ({BROKEN}) refused; using the previous one, step-1"
    assert of_steps([], "step-1") == of_steps([], None) == of_end_states([]) == []


def test_fit_without_a_readable_checkpoint_is_reported_as_starting_over():
    one, begins = of_steps([("step-1", BROKEN)], None)
    assert one == f"the only checkpoint cannot be read: step-1 ({BROKEN})"
    both, again = of_steps([("step-2", BROKEN), ("step-1", BROKEN)], None)
    assert both == f"none of the 2 checkpoints can be read: step-2 ({BROKEN}), step-1 ({BROKEN})"
    assert begins == again == "the interrupted fit starts over"
    (again,) = of_end_states([("finished-fit3", BROKEN)])
    assert again == f"end state finished-fit3 cannot be read ({BROKEN}): that fit trains again"


TWENTY_FITS = """
import sys
from oomph.journal.journal import Journal
from oomph.checkpoint.container import Position
from oomph.checkpoint.manifest import Meta
from oomph.protocol.handover import Handover
from oomph.checkpoint.store import CheckpointStore
from oomph.journal.events import CheckpointSkipped

handover = Handover.read()
store = CheckpointStore(handover.path / "checkpoints")
store.open()
for fit in range(20):
    draft = store.draft_finished(Position(fit, 1, 0, fit))
    draft.complete(Meta(), lambda to: to.add("w", "uint8", (100_000,), bytes(100_000)))
store.draft_step(Position(20, 0, 1, 21)).complete(Meta(), lambda writer: writer.add("w", "uint8", (9,), bytes(9)))
if "nan" in sys.argv:
    Journal(handover.path, handover.attempt, "script").write(CheckpointSkipped(reason="w is not finite"))
sys.exit(3 if "fail" in sys.argv else 0)
"""


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("word", "code", "kept"), [("fail", 3, ["finished"] * 20 + ["step"]), ("well", 0, []), ("nan", 0, ["step"])]
)
def test_end_states_are_kept_only_while_the_run_can_be_resumed(work, word, code, kept):
    work.script(TWENTY_FITS)
    assert work.run("train.py", word).returncode == code
    found = sorted(path.name.partition("-")[0] for path in work.run_dir.glob("checkpoints/*"))
    assert found == kept
    size = size_of(work.run_dir)
    assert (size > 2_000_000) if word == "fail" else (size < 200_000), size
