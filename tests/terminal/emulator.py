"""A terminal with this many columns: what is on its screen after it has received some bytes."""

from __future__ import annotations

import re

_PIECES = re.compile(r"\x1b\[([\d;]*)([A-Za-z])|.", re.DOTALL)


def screen(data: bytes, columns: int) -> list[str]:
    """The lines, without trailing blanks. As in xterm, a full line wraps only when the next character arrives."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for piece in _PIECES.finditer(data.decode(errors="replace")):
        letter = piece[0]
        if piece[2] == "K":
            del lines[row][column:]
        elif piece[2]:
            continue
        elif letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
        else:
            if column == columns:
                row, column = row + 1, 0
            lines += [[] for _ in range(row + 1 - len(lines))]
            line = lines[row]
            line += [" "] * (column + 1 - len(line))
            line[column] = letter
            column += 1
        lines += [[] for _ in range(row + 1 - len(lines))]
    return ["".join(line).rstrip() for line in lines]
