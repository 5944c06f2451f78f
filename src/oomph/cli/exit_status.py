"""Explains an exit status that shows no fault: which program uses the number, and what to pass instead."""

from __future__ import annotations

_FIRST_SIGNAL_CODE = 128
_MEANT = {
    75: "oomph run exits with 75 when starting elsewhere or later may help.\n"
    "Next: oomph run --resume SCRIPT  (resumes from its last checkpoint)",
    93: "oomph run exits with 93 when another start would only meet the same fault again.\n"
    "Next: oomph explain RUN  (says which fault, and what to do)",
    124: "The command timeout exits with 124 when the program took longer than it was allowed.",
    126: "A shell exits with 126 when it may not execute the program.",
    127: "A shell exits with 127 when it does not find the program.",
    130: "SIGINT, 130 in a shell: somebody pressed Ctrl-C.",
    138: "SIGUSR1, 138 in a shell: a scheduler announced the end, and the program has no handler for it.",
    140: "SIGUSR2, 140 in a shell: the program has no handler for it. oomph run saves on SIGTERM and SIGUSR1, not on"
    " SIGUSR2.",
    143: "SIGTERM, 143 in a shell: a scheduler, a container or a person asked the program to end.",
}
_NOT_WHY = "The number says that the program failed, not why.\nNext: oomph explain LOG --exit-status={}"


def meaning(status: int) -> str:
    """The exit status in words, with the next command if there is one; empty for success.

    Args:
        status: an exit code, or −n for death by signal n.
    """
    if status == 0:
        return ""
    code = _FIRST_SIGNAL_CODE - status if status < 0 else status
    return _MEANT.get(code) or _NOT_WHY.format(status)
