"""Finds the line that prevents a second start of a script, and how to fix it. Pure; used in both processes."""

from __future__ import annotations

import re

from oomph.journal.events import StoppedAt

NAME = "not-restartable"
_THERE = re.compile(
    r"already exists?\b|\bfile exists\b|\bexists already\b|\balready (?:present|been created)\b"
    r"|\bnot empty\b|\bnon-empty\b|\bexists[.!,;:]|\bexists$|\boverwrit|EOF when reading a line|\bEEXIST\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches the words with which programs report that something exists, or `input()` that it received no answer."""
_LOOKS = r"(?:exists|isdir|isfile|is_dir|is_file|listdir|iterdir|scandir|glob)\s*\("
_TEST = re.compile(
    rf"^\s*(?:if|elif|while)\b(?![^\n]*\bnot\b)[^\n]*{_LOOKS}|^\s*assert\s+not\b[^\n]*{_LOOKS}", re.MULTILINE
)
"""Matches a line that checks whether something exists."""
_REFUSES = re.compile(r"^(?:if\b[^\n]*:\s*)?(?:raise (?!FileNotFoundError)|assert\b)|\bexit\s*\(|\.error\s*\(")
"""Matches a line that ends the script on purpose. Any other failure after such a check is not a refusal."""
_MENDS = (
    (re.compile(r"(?<!\.)\bmkdir\s*\(|\bos\.mkdir\s*\("), "write os.makedirs(..., exist_ok=True)"),
    (re.compile(r"\bmakedirs\s*\(|\.mkdir\s*\("), "pass exist_ok=True"),
    (re.compile(r"\bcopytree\s*\("), "pass dirs_exist_ok=True"),
    (re.compile(r"\b(?:symlink|symlink_to|link|hardlink_to)\s*\("), "remove the old link first"),
    (re.compile(r"""\bopen\s*\([^\n]*["']\w*x\w*["']"""), 'open it with "w" instead of "x"'),
    (re.compile(r"\binput\s*\("), "take the answer from an option, not from input()"),
    (re.compile(r"\b(?:rename|move)\s*\("), "first remove the file or folder that is already there"),
)
_TABLE = re.compile(r"\btable\b[^\n]*already exists", re.IGNORECASE)
_ELSE = "let it accept what an earlier start left behind, or write under a new name, such as one that contains the time"
_MOST_CHARACTERS = 200


def why_not_restartable(stopped: StoppedAt, last_words: str, went_further: bool) -> str:
    """Explain in one sentence why a script cannot be started again, or return "" if it ended for a different reason.

    Args:
        stopped: where the script stopped. The fields are empty if its process did not report that.
        last_words: the last line that the script wrote to stderr.
        went_further: True if an earlier start of the same script got past the point where this one ended.
    """
    kind, message = stopped.type, stopped.message
    if stopped.created == "now" or not (stopped.created == "before" or went_further):
        return ""  # the script fails this way even at a first start
    by_exit = kind in ("", "SystemExit")
    words = f"{message}\n{last_words}" if by_exit else f"{kind}: {message}"
    if not (kind == "FileExistsError" or _THERE.search(words) or stopped.refuses):
        return ""
    said = (last_words if by_exit and (not message or message.isdecimal()) else message).strip().partition("\n")[0]
    return _sentence(stopped.site, stopped.source, "" if by_exit else kind, said)


def refuses(source: str, before: str) -> bool:
    """True if a line, preceded by the lines in `before`, ends the script on purpose because something exists."""
    return bool(_REFUSES.search(source) and _TEST.search(f"{before}{source}"))


def _sentence(site: str, source: str, kind: str, said: str) -> str:
    place = f"{site}, `{_short(source)}`" if site and source else site or "it"
    error = ": ".join(part for part in (kind, _short(said)) if part)
    mend = _mend(source, said)
    return f"the script cannot be started a second time: {place} ends with {error or 'an exit'}; {mend}, then --resume"


def _mend(source: str, said: str) -> str:
    if _TABLE.search(said):
        return "write CREATE TABLE IF NOT EXISTS"
    return next((mend for pattern, mend in _MENDS if pattern.search(source)), _ELSE)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
