"""Splits records joined in one line, by two processes writing at once or by a form or a mail."""

from __future__ import annotations

from oomph.files.patterns import lazy_pattern

_SHORTEST = 60
_MARKS = ("] ", 'File "', "(most recent call last)")
_STAMP = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: [IWEF] [\w./]{1,200}:\d"  # 2023-01-01 10:00:00.123456: W tensorflow/a.cc:1
    r"|[IWEF]\d{4} \d\d:\d\d:\d[\d.]{1,20} {1,9}\d{1,10} "  # W0000 00:00:1795237229.78 742 a.cc:1
)
_SOURCE = r"(?<!\d{6}: )[IWEF] \w{1,40}/[\w./]{1,200}:\d{1,6}\] "  # W tensorflow/a.cc:1]
_TRACEBACK_HEAD = r"Traceback \(most recent call last\)"
_FRAME = lazy_pattern(r'File "[^"\n]{1,300}", line \d{1,9}')
_ERROR = r"(?:Error|Exception|Interrupt|Exit|StopIteration)"
_RAISED = rf"(?:[A-Za-z_]\w{{0,80}}\.){{0,8}}\w{{0,80}}{_ERROR}(?:: |\s{{0,4}}\Z)"
_SHELL = r"[\w./-]{1,200}: line \d{1,9}: {1,9}\d|(?:srun|slurmstepd): error: "
_GLUED = lazy_pattern(rf"(?<=\S)(?=(?:{_STAMP}))")
_JOINED = lazy_pattern(
    rf"\s{{1,12}}(?=(?:{_STAMP})|{_SOURCE}|{_TRACEBACK_HEAD}|{_FRAME.pattern}"
    rf"|During handling of|Epoch \d{{1,6}}/\d|{_RAISED}|{_SHELL})"
)
_BEGINS = lazy_pattern(
    rf"{_STAMP}|{_FRAME.pattern}|{_TRACEBACK_HEAD}|\s{_SOURCE}|\s\w{{1,80}}\.[\w.]{{1,200}}{_ERROR}: "
)
_HEAD_GOES_ON = lazy_pattern(rf"{_TRACEBACK_HEAD}:? {{0,12}}\S")
_OF_ERROR = lazy_pattern(rf"\s\w{{1,80}}{_ERROR}: ")


def apart(line: str) -> list[str]:
    """The records of a line; nearly always one."""
    if len(line) < _SHORTEST or not any(mark in line for mark in _MARKS) or not _holds_several(line):
        return [line]
    return _ends([part for record in _JOINED.split(line) for part in _GLUED.split(record)])


def _ends(records: list[str]) -> list[str]:
    """Keep only the first and the last of equal records."""
    first: dict[str, int] = {}
    last = {record: place for place, record in enumerate(records)}
    return [
        record
        for place, record in enumerate(records)
        if first.setdefault(record, place) == place or last[record] == place
    ]


def _holds_several(line: str) -> bool:
    begins = _BEGINS.finditer(line)
    if next(begins, None) is not None and next(begins, None) is not None:
        return True
    frame = _FRAME.search(line)
    return _HEAD_GOES_ON.search(line) is not None or (
        frame is not None and _OF_ERROR.search(line, frame.end()) is not None
    )
