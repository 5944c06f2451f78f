"""NVIDIA's catalogue of Xids, which are the driver's reports about a GPU in the kernel log: their names and actions.

xid.csv contains the codes, mnemonics and actions from NVIDIA's spreadsheet, as published at
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (October 2025 edition, Ampere and newer).
`benchmarks/xids.py` rewrites it from a newer spreadsheet.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_CODE = re.compile(r"[0-9]{1,6}")
TABLE = Path(__file__).with_name("xid.csv")
COLUMNS = ("code", "mnemonic", "used", "immediate", "investigatory")

# Plain words for NVIDIA's terms for the first action.
_ACTIONS = {
    "RESTART_APP": "restart the program",
    "IGNORE": "nothing; make a note of it",
    "RESET_GPU": "reset the GPU",
    "RESTART_BM": "restart the machine",
    "RESTART_VM": "restart the virtual machine",
    "CONTACT_SUPPORT": "contact NVIDIA or the machine's vendor",
    "CHECK_MECHANICALS": "check the power cables and the seating of the card",
    "UPDATE_SWFW": "update the driver and the firmware",
    "CHECK_UVM": "look for nvidia-uvm messages next to it",
    "XID_154": "do as the message says",
    "": "not yet specified by NVIDIA; read the messages next to it",
}
_WORKFLOW = "follow NVIDIA's procedure for it"


class Xid(NamedTuple):
    """A row of the catalogue."""

    code: int
    mnemonic: str
    used: bool
    """True if current drivers report this Xid."""
    immediate: str
    """NVIDIA's term for the first action: RESTART_APP, RESET_GPU, …"""
    investigatory: str
    """NVIDIA's term for the action to take if the Xid recurs."""

    @property
    def action(self) -> str:
        """The first action, in plain words."""
        return _ACTIONS.get(self.immediate, _WORKFLOW)


@cache
def catalogue() -> Mapping[int, Xid]:
    """Return all Xids, keyed by code."""
    return read_table(TABLE)


def read_table(path: Path) -> Mapping[int, Xid]:
    """Read a table of Xids, keyed by code. Damaged rows are skipped."""
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        rows = csv.reader(line.replace("\0", "") for line in stream)
        return {
            int(row[0]): Xid(int(row[0]), row[1], row[2] == "yes", row[3], row[4])
            for row in rows
            if len(row) == len(COLUMNS) and _CODE.fullmatch(row[0])
        }


def described(code: str) -> dict[str, str]:
    """Return the captured values for an Xid code; empty if NVIDIA does not list it."""
    found = catalogue().get(int(code)) if _CODE.fullmatch(code) else None
    return {} if found is None else {"xid_name": found.mnemonic, "xid_action": found.action}
