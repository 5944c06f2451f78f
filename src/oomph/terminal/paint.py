"""Colours what oomph prints, by how its lines begin. Pure; the text has its control characters escaped already."""

from __future__ import annotations

import re

_BOLD, _RED, _GREEN, _YELLOW, _CYAN = "1", "31", "32", "33", "36"
_RULES = tuple(
    (re.compile(pattern), style)
    for pattern, style in (
        (r" *(oomph:)(?: |\Z)", _CYAN),
        (r" *oomph: the result {5}((?:verified|exact)\b)", _GREEN),
        (r" *oomph: the result {5}((?:not equal|not finite|failed)\b)", _RED),
        (r" *oomph: the result {5}((?:unverified|replayed|approximate|started over|unguarded)\b)", _YELLOW),
        (r" *oomph: ((?:gave up|stopped) {2,})", _RED),
        (r"(FAIL|FAILED|Not ready:|would not survive\b|\d+ of \d+ claims did not hold)(?= )", _RED),
        (r" {3}(DIED)(?= after )", _RED),
        (r"(WARN|\?)(?= {2})", _YELLOW),
        (r"(note)(?= {2}\w)", _CYAN),
        (r"(Ready:|survives|every claim held|ok)(?=,| )", _GREEN),
        (r"(\d+\. [a-z0-9-]+ \([A-Z]{3}\d{3}\))(?=, )", _BOLD),
        (r"([a-z0-9-]+ \([A-Z]{3}\d{3}\): .*)", _BOLD),
        (r" {3}(evidence|what to do)\Z", _BOLD),
        (r"(Next:)(?= )", _BOLD),
        (r"(== .*)", _BOLD),
        (r"((?:usage|positional arguments|options|examples?|exit codes):)", _BOLD),
    )
)
_UNDERLINE = re.compile(r"-{3,}\Z")


def painted(text: str) -> str:
    """The text with escape codes for colour."""
    lines = text.split("\n")
    following = [*lines[1:], ""]
    return "\n".join(_line(line, after) for line, after in zip(lines, following, strict=True))


def _line(line: str, following: str) -> str:
    if line and _UNDERLINE.match(following):
        return _styled(line, _BOLD)
    for start, end, style in sorted(_spans(line), reverse=True):
        line = line[:start] + _styled(line[start:end], style) + line[end:]
    return line


def _spans(line: str) -> list[tuple[int, int, str]]:
    found = ((pattern.match(line), style) for pattern, style in _RULES)
    return [(*match.span(1), style) for match, style in found if match is not None]


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"
