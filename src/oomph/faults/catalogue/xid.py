"""NVIDIA's catalogue of Xids, the driver's reports about a GPU in the kernel's log: what each is called, what to do.

xid.csv holds the codes, mnemonics and actions of NVIDIA's spreadsheet, as published at
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html (edition of October 2025, Ampere and newer).
Write it anew from a newer spreadsheet: `python -m oomph.faults.catalogue.xid Xid-Catalog.xlsx xid.csv`.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element
    from zipfile import ZipFile

_CODE = re.compile(r"[0-9]{1,6}")
TABLE = Path(__file__).with_name("xid.csv")
_COLUMNS = ("code", "mnemonic", "used", "immediate", "investigatory")
_HEADINGS = {
    "code": "code",
    "mnemonic": "mnemonic",
    "description": "description",
    "resolution bucket (immediate action)": "immediate",
    "resolution bucket (investigatory action)": "investigatory",
}
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_UNUSED = "unused"

# NVIDIA's words for what to do first, in plain ones.
_ACTIONS = {
    "RESTART_APP": "start the program again",
    "IGNORE": "nothing; keep a note of it",
    "RESET_GPU": "reset the GPU",
    "RESTART_BM": "restart the machine",
    "RESTART_VM": "restart the virtual machine",
    "CONTACT_SUPPORT": "ask NVIDIA or the maker of the machine",
    "CHECK_MECHANICALS": "look at power cables and the seat of the card",
    "UPDATE_SWFW": "update the driver and the firmware",
    "CHECK_UVM": "look for the messages of nvidia-uvm beside it",
    "XID_154": "do what the message itself names",
    "": "not yet given by NVIDIA; look at the messages beside it",
}
_WORKFLOW = "follow NVIDIA's procedure for it"


class Xid(NamedTuple):
    """One row of the catalogue."""

    code: int
    mnemonic: str
    used: bool
    """Whether drivers of today report it."""
    immediate: str
    """What to do first, in NVIDIA's word: RESTART_APP, RESET_GPU, ..."""
    investigatory: str
    """What to do when it comes again."""

    @property
    def action(self) -> str:
        """What to do first, in plain words."""
        return _ACTIONS.get(self.immediate, _WORKFLOW)


@cache
def catalogue() -> Mapping[int, Xid]:
    """Every Xid by its code."""
    return read_table(TABLE)


def read_table(path: Path) -> Mapping[int, Xid]:
    """Every Xid of a table by its code, without rows that are damaged."""
    with path.open(encoding="utf-8", errors="replace", newline="") as stream:
        rows = csv.reader(line.replace("\0", "") for line in stream)
        return {
            int(row[0]): Xid(int(row[0]), row[1], row[2] == "yes", row[3], row[4])
            for row in rows
            if len(row) == len(_COLUMNS) and _CODE.fullmatch(row[0])
        }


def described(code: str) -> dict[str, str]:
    """The captured values that belong to an Xid's number; empty for one that NVIDIA does not list."""
    found = catalogue().get(int(code)) if _CODE.fullmatch(code) else None
    return {} if found is None else {"xid_name": found.mnemonic, "xid_action": found.action}


def read_spreadsheet(path: Path) -> Iterator[Xid]:
    """The rows of NVIDIA's Xid-Catalog.xlsx. ValueError: it has no sheet with the headings."""
    from zipfile import ZipFile  # only whoever renews the table pays for it, not every `oomph explain`

    with ZipFile(path) as archive:
        strings = _shared_strings(archive)
        sheets = sorted(name for name in archive.namelist() if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name))
        for sheet in sheets:
            rows = list(_rows(archive.read(sheet), strings))
            columns = _columns(rows)
            if columns:
                yield from _xids(rows, columns)
                return
    raise ValueError(f"{path.name} has no sheet with the columns {', '.join(_HEADINGS)}")


def write_table(xids: Iterable[Xid], path: Path) -> None:
    """Write xid.csv."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for xid in sorted(xids, key=lambda xid: xid.code):
        writer.writerow((xid.code, xid.mnemonic, "yes" if xid.used else "no", xid.immediate, xid.investigatory))
    path.write_text(text.getvalue(), encoding="utf-8")


def _shared_strings(archive: ZipFile) -> list[str]:
    root = _xml(archive.read("xl/sharedStrings.xml"))
    return ["".join(part.text or "" for part in item.iter(f"{_SHEET}t")) for item in root.iter(f"{_SHEET}si")]


def _rows(sheet: bytes, strings: Sequence[str]) -> Iterator[dict[str, str]]:
    """Each row as text by the letters of its column."""
    for row in _xml(sheet).iter(f"{_SHEET}row"):
        cells = {}
        for cell in row.iter(f"{_SHEET}c"):
            value = cell.find(f"{_SHEET}v")
            text = "" if value is None else value.text or ""
            shared = cell.get("t") == "s" and text.isdigit()
            cells[(cell.get("r") or "").rstrip("0123456789")] = strings[int(text)] if shared else text
        yield cells


def _columns(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The column of each heading, from the first row that has them all."""
    for row in rows:
        found = {_HEADINGS[key]: column for column, text in row.items() if (key := _tidy(text).lower()) in _HEADINGS}
        if len(found) == len(_HEADINGS):
            return found
    return {}


def _xids(rows: Iterable[Mapping[str, str]], columns: Mapping[str, str]) -> Iterator[Xid]:
    for row in rows:
        cell = {name: _tidy(row.get(column, "")) for name, column in columns.items()}
        if cell["code"].isdigit():
            used = cell["description"].lower() != _UNUSED
            mnemonic = cell["mnemonic"].split(" /")[0]
            actions = (cell["immediate"], _tidy(cell["investigatory"].replace(",", " "))) if used else ("", "")
            yield Xid(int(cell["code"]), mnemonic, used, *actions)


def _xml(data: bytes) -> Element:
    from xml.etree import ElementTree

    return ElementTree.fromstring(data)


def _tidy(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    write_table(read_spreadsheet(Path(sys.argv[1])), Path(sys.argv[2]))
