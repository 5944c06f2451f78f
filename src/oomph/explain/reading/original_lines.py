"""Restores the lines that a program wrote: drops launcher and logger prefixes, splits joined records, unindents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from oomph.explain.evidence.evidence import Evidence
from oomph.files.patterns import lazy_pattern

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)"
_DAY = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ [ \d]\d\ \d\d:\d\d:\d\d"

# What loggers put before each line that a program printed. The level says how serious a message is, so it is kept
# before prose, but a traceback is always serious.
_RAISED_LINE = r"(?:\w{1,80}\.){0,8}\w{0,80}(?:Error|Exception|Interrupt|Exit|Iteration)(?::|\s*\Z)"
_TRACEBACK_LINE = rf"""(?=\s|File\ "|Traceback\ \(|{_RAISED_LINE})"""
_LEVEL = r"\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\]?"
# The speaker is kept, since it tells ranks apart.
_SPEAKER = r"""
    \((?:[\w.<>\[\]-]{1,80}\ )?pid=\d+(?:,\ ip=[\w.:]+)?\)\ ?    # Ray: (RayTrainWorker pid=7089)
  | \[\d+(?:,[\w:.-]{1,60}){0,3}\]<std(?:err|out)>:\ ?           # mpirun, SageMaker: [1,0]<stderr>:
  | \[(?:default|rank)_?\d+\]:\ ?                                # torchrun style: [rank0]:
  | \[pod/[\w./-]{1,200}\]\                                      # kubectl logs --prefix
  | [\w.-]{1,60}\ +\|\                                           # docker compose: trainer-1  |
  | \ {0,3}\d{1,4}:\ (?=\S)                                      # srun --label: 3:
"""
# What logging systems add is dropped. All forms that start with a time are grouped, since this pattern takes the
# longest to compile.
_STREAM = r"(?:stdout|stderr)\ [FP]\ "
_PROGRAM = r"[\w.-]{1,80}\ [\w./@-]{1,60}(?:\[\d+\])?:\ "
_CARRIER = rf"""
    {_TIME}(?:
        {_ZONE}(?:\ {_STREAM} | \ {_PROGRAM} | \ ?)                # containerd; journalctl; kubectl logs --timestamps
      | \ {_PROGRAM}                                             # syslog, journalctl
      | \ +(?:[-|]\ )?(?:[\w.]{{1,80}}\ +(?:[-|]\ )?)?               # a logger: <time> - root - ERROR -
        {_LEVEL}(?:\ *[-|:]\ |\ +(?!\s))(?:[\w.:-]{{1,80}}\ ?[-|:]\ )?{_TRACEBACK_LINE}
    )
  | {_STREAM}                                                              # containerd
  | {_DAY}\ (?:{_PROGRAM})?                                                 # syslog; ts
  | \[\d{{4}}-\d\d-\d\d[T,\ ]{{1,2}}[\d:.,+]+(?:\ UTC)?\]\ \{{[\w.]+:\d+\}}\ [A-Z]+\ -\      # Airflow
  | \d{{4}}/\d\d/\d\d\ \d\d:\d\d:\d\d\                                               # log of Go programs
  | (?:kern\ *:\w+\ *:\ )?(?:<\d{{1,3}}>)?\[\ *\d+\.\d{{6}}\](?:\[\ *[TC]\d+\])?\ ?     # dmesg
  | \[{_TIME}{_ZONE}?\]\                                                        # a wrapper's own stamp
  | \[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ {_DAY}\ \d{{4}}\]\                      # dmesg -T
  | (?:[>\#]\ |>(?=[>\S])){{1,4}}                                             # quoted in a mail or an issue
  | \ {{0,8}}\|\ (?=[^|\n]*\Z)                                                  # the same, or a group of exceptions
  | (?:INFO|ERROR|CRITICAL):[\w.-]{{1,80}}:{_TRACEBACK_LINE}                         # logging.basicConfig: ERROR:root:
"""
_PREFIX = lazy_pattern(rf"(?P<speaker>{_SPEAKER})|(?:{_CARRIER})", re.VERBOSE)
_MOST_PREFIXES = 5
_JSON_KEYS = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "text", "event")
_JSON_ERRORS = ("exc_info", "exc_text", "exception", "exc", "traceback", "stack_trace", "stacktrace", "error", "err")
"""The keys under which loggers put the error that was raised, as a string or as an object with strings."""
_JSON_OF_ERROR = ("type", "message", "stack", "stack_trace")
_JSON_LEVELS = ("level", "levelname", "severity", "log.level", "lvl")
_GRAVE = ("err", "crit", "fatal", "alert", "emerg", "panic", "except")


def without_prefixes(text: str) -> tuple[str, str]:
    """Return the line as the program wrote it, and its speaker ("" if unknown)."""
    speaker = ""
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text)
        if found is None or found.end() == 0:
            break
        speaker = speaker or (found["speaker"] or "").strip(" :|")
        text = text[found.end() :]
    return text, speaker


def from_json(text: str) -> str:
    """Return the message in a JSON line (Docker, Kubernetes, Google Cloud, journalctl -o json), or the line itself."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(document, dict):
        return text
    payload = document.get("jsonPayload")
    fields = {**payload, **document} if isinstance(payload, dict) else document
    said = next((fields[key] for key in _JSON_KEYS if isinstance(fields.get(key), str)), text)
    return "\n".join([str(said), *_raised(fields)])


def _raised(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the error in a logger's JSON line, unless its level is a warning or lower."""
    levels = [value.lower() for key in _JSON_LEVELS if isinstance(value := fields.get(key), str)]
    if not levels or levels[0].startswith(_GRAVE):  # numeric levels differ between loggers
        for value in (fields[key] for key in _JSON_ERRORS if key in fields):
            parts = [value.get(key) for key in _JSON_OF_ERROR] if isinstance(value, dict) else [value]
            yield from (part for part in parts if isinstance(part, str) and part)


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
    """Split a line into its records. Nearly every line has only one."""
    if len(line) < _SHORTEST or not any(mark in line for mark in _MARKS) or not _holds_several(line):
        return [line]
    return _ends([part for record in _JOINED.split(line) for part in _GLUED.split(record)])


def _ends(records: list[str]) -> list[str]:
    """Keep only the first and last of several equal records."""
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


_HEAD = "Traceback (most recent call last)"
_MOST_SPEAKERS = 512


class Indentation:
    """Reads lines in order, and tracks how far each speaker's current block is indented."""

    def __init__(self) -> None:
        self._margins: dict[str, int] = {}

    def without(self, fact: Evidence) -> Evidence:
        """Return the line without its block's indentation. A traceback starts a block; a less indented line ends it."""
        text = fact.text
        if not text.startswith((" ", "\t")):
            self._margins[fact.origin] = 0
            return fact
        if len(self._margins) > _MOST_SPEAKERS:
            self._margins.clear()
        bare = text.lstrip(" \t")
        indent = len(text) - len(bare)
        margin = self._margins.get(fact.origin, indent)
        if bare.startswith(_HEAD) or indent < margin:
            margin = indent
        self._margins[fact.origin] = margin
        return fact._replace(text=text[margin:]) if margin else fact
