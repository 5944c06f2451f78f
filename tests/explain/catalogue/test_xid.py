"""NVIDIA's Xid catalogue, and its table in the reference."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import find, load
from oomph.explain.catalogue.docs import xid_table
from oomph.explain.catalogue.xid import Xid, catalogue, described
from oomph.explain.diagnose import diagnose, diagnose_log
from oomph.explain.evidence.evidence import Evidence

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
from xids import read_spreadsheet, write_table  # the code that writes the table is not part of the package

REFERENCE = Path(__file__).parents[3] / "docs/reference/xid.md"
NEED_HARDWARE = {"RESET_GPU", "RESTART_BM", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "CHECK_MECHANICALS"}


def first(xid: int) -> str:
    (best, *_) = diagnose([Evidence("log", f"NVRM: Xid (PCI:0000:3b:00): {xid}, pid=1, name=python, something")])
    return best.name


def test_xid_catalogue_is_complete() -> None:
    assert list(catalogue()) == list(range(1, 173))
    assert catalogue()[79] == Xid(
        79, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", True, "RESTART_BM", "CONTACT_SUPPORT"
    )


def test_xid_requiring_a_reset_is_a_hardware_fault() -> None:
    for xid in catalogue().values():
        if xid.immediate in NEED_HARDWARE:
            assert first(xid.code) == "hardware-fault", xid


@pytest.mark.parametrize("xid", [13, 31])
def test_xid_caused_by_a_program_is_not_blamed_on_the_hardware(xid: int) -> None:
    assert first(xid) == "illegal-memory-access"


def test_xid_is_described_with_its_name_and_action() -> None:
    assert described("79") == {
        "xid_name": "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
        "xid_action": "restart the machine",
    }
    assert described("9999") == described("x") == {}
    (best, *_) = diagnose([Evidence("log", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")])
    assert "restart the machine" in best.remedies[0].text


def test_xid_reference_matches_the_table() -> None:
    """If this fails: python -m oomph.explain.catalogue.docs docs/reference/faults"""
    assert REFERENCE.read_text() == xid_table(catalogue().values())


def test_every_page_with_an_xid_signature_captures_its_number() -> None:
    pages = [fault for fault in load() if any("Xid" in s.literal.split() for s in fault.signatures)]
    assert find("HWD801") in pages
    assert all("xid" in s.pattern for fault in pages for s in fault.signatures if s.literal == "Xid")


def test_spreadsheet_in_nvidias_format_is_converted_to_the_xid_table(tmp_path: Path) -> None:
    headings = ["Type (XID)", "Code", "Mnemonic", "Description", "Resolution Bucket (Immediate Action)"]
    headings += ["Resolution Bucket (Investigatory Action)"]
    rows = [headings, ["XID", "79", "A /\nB", "lost", "RESTART_BM", "X, Y"], ["XID", "1", "C", "Unused", "Z", "Z"]]
    strings = [cell for row in rows for cell in row]
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    number = iter(range(len(strings)))
    sheet = "".join(
        "<row>"
        + "".join(f'<c r="{"ABCDEF"[column]}{line}" t="s"><v>{next(number)}</v></c>' for column in range(6))
        + "</row>"
        for line, _ in enumerate(rows, 1)
    )
    path = tmp_path / "Xid-Catalog.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", f"<sst {space}>{shared}</sst>")
        archive.writestr("xl/worksheets/sheet1.xml", f"<worksheet {space}><sheetData>{sheet}</sheetData></worksheet>")
    found = list(read_spreadsheet(path))
    assert found == [Xid(79, "A", True, "RESTART_BM", "X Y"), Xid(1, "C", False, "", "")]
    write_table(found, tmp_path / "xid.csv")
    assert (tmp_path / "xid.csv").read_text().splitlines()[1:] == ["1,C,no,,", "79,A,yes,RESTART_BM,X Y"]


def test_remedy_quotes_nvidias_action_for_an_xid() -> None:
    """Each action is a complete clause, such as "follow NVIDIA's procedure for it"."""
    found, *_ = diagnose_log(b"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus.\n")
    told = next(remedy.text for remedy in found.remedies if "NVIDIA's catalogue" in remedy.text)
    assert told == f"For Xid 79 of the GPU at 0000:3b:00, NVIDIA's catalogue says: {catalogue()[79].action}"
