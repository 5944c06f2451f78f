"""Renders the Markdown of a fault page as plain text for the terminal. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from oomph.terminal.wrapping import wrapped

_CODE = re.compile(r"`([^`\n]{1,500})`")
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\(([^)\s]{1,300})\)|<(https?://[^>\s]{1,300})>")
_STRONG = re.compile(r"(?<![\w*])(\*\*?)(?=\S)([^*\n]{1,200}?)(?<=\S)\1(?![\w*])")
_ITEM = re.compile(r" *(?:[-*+]|\d{1,2}[.)]) +")
_HEADING = re.compile(r"#{1,6} +")
_TYPED = ("sh", "bash", "shell", "console", "python", "py")
"""The languages of code fences that users may paste from, so their lines are not wrapped."""
_INSET = "    "


def plain(markdown: str, width: int) -> Iterator[str]:
    """Yield the lines of the text at a given width: paragraphs, lists, tables, headings and fences, without markup."""
    for block in _blocks(markdown.split("\n")):
        yield from _block(block, width)


def inline(text: str) -> str:
    """Return the text of a paragraph without the markup for code, links and emphasis."""
    pieces = _CODE.split(text)  # the odd pieces are code
    return "".join(_quoted(piece) if place % 2 else _unmarked(piece) for place, piece in enumerate(pieces))


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each block: a fence, a list item, a table, a heading, a paragraph, or a blank line."""
    block: list[str] = []
    for line in lines:
        if block and _continues(block, line):
            block.append(line)
        else:
            yield from [block] if block else []
            block = [line]
    yield from [block] if block else []


def _continues(block: Sequence[str], line: str) -> bool:
    first = block[0]
    if first.startswith("```"):
        return len(block) == 1 or not block[-1].startswith("```")
    if not first.strip() or not line.strip() or _HEADING.match(first):
        return False
    if _is_row(first) or _is_row(line):
        return _is_row(first) and _is_row(line)
    return not (_ITEM.match(line) or _HEADING.match(line) or line.startswith("```"))


def _block(block: Sequence[str], width: int) -> Iterator[str]:
    first = block[0]
    if first.startswith("```"):
        yield from _fence(first[3:].strip(), block[1:], width)
    elif _is_row(first):
        yield from _table(block, width)
    elif not first.strip():
        yield ""
    else:
        item = _ITEM.match(first)
        text = " ".join(line.strip() for line in block)
        text = inline(_HEADING.sub("", text, count=1) if _HEADING.match(text) else text)
        indent = len(first) - len(first.lstrip())
        yield wrapped(text, width, " " * item.end(), " " * indent) if item else wrapped(text, width)


def _fence(language: str, lines: Sequence[str], width: int) -> Iterator[str]:
    for line in itertools.takewhile(lambda line: not line.startswith("```"), lines):
        if language in _TYPED or not line.strip():
            yield f"{_INSET}{line}".rstrip()
        else:
            yield wrapped(line.rstrip(), width, _INSET + "  ", _INSET)


def _table(block: Sequence[str], width: int) -> Iterator[str]:
    """Yield the rows, aligned in columns. The last column fills the rest of the width."""
    rows = [[inline(cell.strip()) for cell in _cells(line)] for line in block]
    rows = [row for row in rows if any(cell.strip("-: ") for cell in row)]
    count = max(map(len, rows), default=0)
    rows = [row + [""] * (count - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(count - 1)]
    for row in rows:
        head = "".join(f"{cell:<{room}}  " for cell, room in zip(row, widths, strict=False))
        yield wrapped(head + row[-1], width, " " * min(len(head), width // 2)).rstrip()


def _cells(row: str) -> list[str]:
    """Split a row into its cells. Bars inside code do not separate cells."""
    apart = _CODE.sub(lambda code: code[0].replace("|", "\0"), row.strip().strip("|")).split("|")
    return [cell.replace("\0", "|") for cell in apart]


def _is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def _quoted(code: str) -> str:
    """Quote code that consists of several words, to show where it ends."""
    if " " not in code.strip():
        return code
    return f"'{code}'" if '"' in code else f'"{code}"'


def _unmarked(text: str) -> str:
    text = _LINK.sub(lambda found: found[3] or f"{found[1]} ({found[2]})", text)
    return _STRONG.sub(r"\2", text)
