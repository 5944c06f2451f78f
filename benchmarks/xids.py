"""Rewrites the table of Xids from NVIDIA's spreadsheet: `python benchmarks/xids.py Xid-Catalog.xlsx`.

The spreadsheet is linked at https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. The table keeps
codes, mnemonics and actions. See `src/oomph/explain/catalogue/xid.py`.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from oomph.explain.catalogue.xid import COLUMNS, TABLE, Xid

_HEADINGS = {
    "code": "code",
    "mnemonic": "mnemonic",
    "description": "description",
    "resolution bucket (immediate action)": "immediate",
    "resolution bucket (investigatory action)": "investigatory",
}
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_UNUSED = "unused"


def read_spreadsheet(path: Path) -> Iterator[Xid]:
    """The rows of NVIDIA's Xid-Catalog.xlsx. ValueError: it has no sheet with the headings."""
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
    writer.writerow(COLUMNS)
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
    return ElementTree.fromstring(data)


def _tidy(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    write_table(read_spreadsheet(Path(sys.argv[1])), TABLE)
