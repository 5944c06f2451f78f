"""The command that resumes a run, and what the script reads from its environment."""

from __future__ import annotations

from oomph.journal.journal import Event
from oomph.run.report.next_command import Variables, command_to_go_on, variables_read

ENVIRON = {
    "EPOCHS": "30", "RATE": "1e-3", "DEBUG": "True", "NAME": "run-7", "PASSWORD": "123456", "TOKEN": "hf_abcdefghij",
    "LONG": "123456789012345", "UNREAD": "1",
}  # fmt: skip


def read(*names: str) -> Event:
    return Event.named("environment-read", {"variables": list(names)}, attempt=1)


def test_only_numeric_and_boolean_variables_are_shown_with_their_values():
    names = [name for name in ENVIRON if name != "UNREAD"]
    found = variables_read([read(*names[:3], "UNSET"), read(*names)], ENVIRON)
    assert found == Variables(("DEBUG=True", "EPOCHS=30", "RATE=1e-3"), ("LONG", "NAME", "PASSWORD", "TOKEN"))
    assert variables_read([], ENVIRON) == Variables()


def test_resume_command_starts_with_the_shown_variables():
    typed = ("--run-dir", "r", "--checkpoint-every", "7")
    assert command_to_go_on(typed, ("train.py", "a b"), "r", ("EPOCHS=30",)) == (
        "EPOCHS=30 oomph run --resume=r --checkpoint-every 7 train.py 'a b'"
    )
