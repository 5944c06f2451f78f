"""The message of an exception: which of the lines below its first belong to it and say something. Pure.

Keras puts the reason below the frames of the user's code, and the arguments of the call below the reason. TensorFlow
puts it below the frames of the graph node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oomph.explain.evidence.tracebacks import begins_traceback, frame_on
from oomph.files.patterns import lazy_pattern

_MOST, _LONGEST = 12, 1000
"""The maximum number of lines to keep, and of characters of each."""
# A line that no message contains: of a logger, a shell, a launcher, a progress bar, or the next traceback.
_OTHER = lazy_pattern(
    r"\d{4}-\d\d-\d\d[ T]\d\d:|[IWEFD]\d{4} \d\d:|\[\w{0,20} ?\d\d:\d\d|During handling of the above"
    r"|The above exception was"
    r"|Epoch \d|\d{1,9}/\d{1,9} \[|oomph: |(?:\(\w[\w.-]{0,40}\) ?)?\S{1,60}@\S{1,60}[$#] |[$#>] |\S{0,200}\$ "
    r"|srun: |slurmstepd: |make: "
    r"|Exception ignored in|INFO|WARNING|DEBUG|ERROR[: ]|Process finished|Killed\b|Aborted\b"
)
_CODE = "      "
_ARGUMENTS = ("Arguments received by", "Call arguments received by")
# Lines that say where, not why.
_PLACE = lazy_pattern(
    r"\s*(?:\[\[|\{\{|\d{1,6} successful operations|\d{1,6} derived errors|Detected at node|<stack traces|\^"
    r"|Original stack trace"
    r"|Additional GRPC|Node: |\(\d{1,3}\) \w{1,40}:? *\Z|-{3,}|={3,}|~)"
)
_INNER = lazy_pattern(r"\s*(?P<type>[A-Za-z_][\w.]{0,120}(?:Error|Exception)): ?(?P<rest>.*)", 16)
_EMPTY = ("in user code:", "Graph execution error:")


def telling_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of an exception's message that say something, without its class and without indentation."""
    told = list[str]()
    for place, line in enumerate(_of_message(lines)):
        inner = _INNER.match(line)
        text = (inner["rest"] if inner else line).strip()[:_LONGEST]
        if text and text not in _EMPTY and not text.endswith("defined at (most recent call last):"):
            told.append(text)
        if inner and place and text:
            told = [text]  # the reason, below the frames of the user's code
        if len(told) == _MOST:
            break
    return tuple(told)


def _of_message(lines: Iterable[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        if place and (begins_traceback(line) or _OTHER.match(line) or line.startswith(_ARGUMENTS)):
            return
        is_frame = place and (line.startswith(_CODE) or frame_on(line) is not None)
        if not is_frame and _PLACE.match(line) is None:
            yield line
