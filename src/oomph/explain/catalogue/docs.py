"""Writes the files that are generated from the pages. Of these, only docs/reference/xid.md is kept in Git.

`python -m oomph.explain.catalogue.docs docs/reference/faults`
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from oomph.explain.catalogue.catalogue import load
from oomph.explain.catalogue.fault import KINDS, Fault, Remedy, Signature, sentence
from oomph.explain.catalogue.xid import Xid, catalogue


def documents(faults: Sequence[Fault]) -> dict[str, str]:
    """Return the contents of the generated files, by file name."""
    pages = {f"{fault.code}-{fault.name}.md": "\n".join(_page(fault)) for fault in faults}
    return {"index.md": "\n".join(_index(faults)), **pages}


def write(folder: Path) -> None:
    """Write all files, and remove the pages of faults that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = documents(load())
    for stale in {path.name for path in folder.glob("*.md")} - wanted.keys():
        (folder / stale).unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder.parent / "xid.md").write_text(xid_table(catalogue().values()), encoding="utf-8")


def xid_table(xids: Iterable[Xid]) -> str:
    """Return the text of docs/reference/xid.md."""
    lines = [
        "# Xid",
        "",
        "An Xid is the NVIDIA driver's report about a GPU in the kernel log. Codes, names and actions come from",
        "[NVIDIA's Xid catalogue](https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) (October 2025,",
        "for Ampere and newer GPUs); codes that it calls unused are left out.",
        "`oomph explain LOG --kernel-log` looks them up.",
        "Generated from `src/oomph/explain/catalogue/xid.csv` by `python -m oomph.explain.catalogue.docs`.",
        "",
        "| Xid | NVIDIA's name | what to do first | NVIDIA's word for it | if it recurs |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {xid.code} | {xid.mnemonic} | {xid.action} | {xid.immediate} | {xid.investigatory} |"
        for xid in xids
        if xid.used
    ]
    return "\n".join([*lines, ""])


def _index(faults: Sequence[Fault]) -> Iterator[str]:
    yield "# Faults\n"
    yield (
        "Generated from `src/oomph/explain/pages` by `python -m oomph.explain.catalogue.docs`. "
        "Codes are never reused.\n"
    )
    yield "| code | name | what it is | severity |"
    yield "| --- | --- | --- | --- |"
    for fault in faults:
        link = f"[{fault.code}]({fault.code}-{fault.name}.md)"
        yield f"| {link} | {fault.name} | {fault.summary} | {fault.severity} |"
    yield ""


def _page(fault: Fault) -> Iterator[str]:
    yield f"# {fault.code} {fault.name}: {fault.title}\n"
    yield f"{fault.summary}\n"
    sticky, machine = ("yes" if each else "no" for each in (fault.sticky, fault.machine))
    yield f"Severity: {fault.severity}. Process or CUDA context lost: {sticky}. "
    yield f"The machine may be the cause: {machine}. Applies to: {fault.versions}. In oomph since {fault.since}.\n"
    for heading, prose in fault.sections.items():
        yield f"## {heading}\n"
        yield f"{prose}\n"
        if heading == "What you can do":
            yield "\n".join(_remedies(fault.remedies))
            yield from _by_wording(fault.signatures)
            if fault.answers:
                yield "Answers to single messages, with their values in braces:\n"
                yield "\n".join(_remedies(fault.answers))


def _by_wording(signatures: Sequence[Signature]) -> Iterator[str]:
    """Yield the remedies for each wording. Literals from the same table share a list."""
    for remedies, alike in groupby(signatures, key=lambda signature: signature.remedies):
        if remedies:
            literals = dict.fromkeys(_code(signature.literal.strip()) for signature in alike)
            yield f"First, if the log says {' or '.join(literals)}:\n"
            yield "\n".join(_remedies(remedies))


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _remedies(remedies: Sequence[Remedy]) -> Iterator[str]:
    for number, remedy in enumerate(remedies, 1):
        command = f": {_code(remedy.command)}" if remedy.command else ""
        action = " *`oomph run` does this for you.*" if remedy.action else ""
        changed = remedy.changes or KINDS.get(remedy.kind)
        changes = f" Changes: {changed}." if changed else ""
        yield f"{number}. {sentence(remedy.titled + command)}{changes}{action}"
    yield ""


if __name__ == "__main__":
    write(Path(sys.argv[1]))
