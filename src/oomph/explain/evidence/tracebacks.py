"""Follows tracebacks through a log to find the exception at the end and the innermost line of the user's own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oomph.explain.evidence.evidence import Evidence
from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"recent", "node"})

_HEAD_WITHOUT_T = "raceback (most recent call last)"  # the first letter is often lost in copying
_NOTEBOOK = lazy_pattern(r"(?P<type>[A-Za-z_][\w.]*)\s{2,}Traceback \(most recent call last\)")
_CALLS = "(most recent call last)"
_RAISED = lazy_pattern(r"(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?::|\Z|\n)")
_HARMLESS = ("Exception ignored in", "--- Logging error ---")
_FRAMES = (
    lazy_pattern(r'\s*File "(?P<file>[^"\n]{1,500})", line (?P<line>\d+)(?:, in (?P<function>[^\n]{1,200}))?'),
    lazy_pattern(r"\s*File (?P<file>\S[^:\n]{0,500}):(?P<line>\d+)(?:, in (?P<function>[\w.<>]{1,200}))?"),
    lazy_pattern(r"\s*Cell (?P<file>In ?\[\d+\]), line (?P<line>\d+)"),
    lazy_pattern(r"\s*(?P<file><ipython-input-[\w-]{1,80}>)(?: in (?P<function>[\w.<>]{1,200}))?"),
)
# ~/env/lib/python3.7/site-packages/keras/engine/training.py in fit(self, x, y)      (a notebook, IPython before 8)
_NOTEBOOK_FRAME = lazy_pattern(r"[~/.A-Z\[](?P<file>[^\n]{1,300}\.py)[^\n]{0,60}? in (?P<function>[\w.<>]{1,80})\(")
_LONGEST_LINE = 9
"""The number of digits from which a line number is not one."""
_ARROW = lazy_pattern(r"-+> ?(?P<line>\d+) ")
_LIBRARY = lazy_pattern(
    r"site-packages|dist-packages|(?:\A|[/\\])src[/\\]oomph[/\\]|[/\\]oomph[/\\](?:api|exact_step|hooks|keras_bridge|resume)[/\\]"
    r"|[/\\]lib[/\\]python\d|[Pp]ython\d*\\[Ll]ib\\|importlib|<frozen|<__array_function__|\.runfiles|\A<string>|\.p(?:yx|xi)\Z"
)
# The package that a frame belongs to, if its errors usually concern the arguments that it was given.
_RAISER = lazy_pattern(
    r"(?:(?:site|dist)-packages|\.runfiles/[\w.-]{1,80})[/\\](?P<package>tensorflow|keras|tf_keras|h5py|(?:tensorflow|keras)_\w{2,20})[/\\]"
)
# The package that a frame belongs to, except those that call the user's functions or accept arbitrary arguments.
_INSTALLED = lazy_pattern(
    r"(?:site|dist)-packages[/\\](?!(?:tensorflow|tensorflow_core|keras|tf_keras|numpy|pandas|matplotlib|scipy|sklearn|IPython"
    r"|ipykernel)[/\\])(?P<package>[A-Za-z]\w{0,60})[/\\]"
)
_NODE = lazy_pattern(r"\{\{node (?P<node>[^}\n]{1,200})\}\}|[Dd]etected at node '?(?P<at>[^\s']{1,200})'? defined at")
_IMPORTED = lazy_pattern(r"\s+from (?P<package>tensorflow|keras|tf_keras)\b[\w.]* import ")
_SMALL_CLASSES = frozenset({"timeout", "error", "herror", "gaierror"})


class RaisedException(NamedTuple):
    """The exception at the end of a traceback."""

    fact: Evidence
    type_name: str
    harmless: bool
    """True if Python merely reports the exception because it was raised where it cannot be caught, such as in
    __del__."""
    library: str = ""
    """The known package whose code raised the exception, such as "keras"; empty otherwise."""
    importing: bool = False
    """True if that package was being imported."""
    inside: str = ""
    """The installed package whose code raised the exception; empty for the user's own code."""


class _Open:
    """A traceback that has started."""

    def __init__(self, harmless: bool, notebook: str) -> None:
        self.harmless = harmless
        self.notebook = notebook
        self.library = ""
        self.importing = False
        self.inside = ""
        self.code = ""
        """The source line of the innermost frame."""


class Tracebacks:
    """Reads the lines of a log in order. Each speaker may have one open traceback."""

    def __init__(self) -> None:
        self.where = ""
        """The innermost line of the user's own code in the last traceback, such as "train.py:42 in step"."""
        self.node = ""
        """The last graph node mentioned in an error."""
        self._open: dict[str, _Open] = {}
        self._before: dict[str, str] = {}

    def see(self, fact: Evidence) -> RaisedException | None:
        """Process the next line. Return the exception if the line ends a traceback."""
        if len(self._open) > 512 or len(self._before) > 512:  # start over if there are more ranks than that
            self._open.clear()
            self._before.clear()
        text, before = fact.text, self._before.get(fact.origin, "")
        self._before[fact.origin] = text[:80]
        if "node" in text and (node := _NODE.search(text)):
            self.node = node["node"] or node["at"]
        if begins_traceback(text):
            notebook = _NOTEBOOK.match(text)
            self._open[fact.origin] = _Open(before.startswith(_HARMLESS), notebook["type"] if notebook else "")
            self.where = ""
            return None
        if _CALLS in text:
            return None  # introduces a graph node's frames, which follow the exception's own
        opened = self._open.get(fact.origin)
        return None if opened is None else self._follow(fact, opened)

    @property
    def is_open(self) -> bool:
        """True if a traceback has begun whose error has not been read."""
        return any(not each.harmless for each in self._open.values())

    def close(self, origin: str) -> tuple[str, bool]:
        """Close the open traceback. Return the package in which it ends, and True if it was being imported."""
        opened = self._open.pop(origin, None)
        return (opened.library, opened.importing) if opened else ("", False)

    def _follow(self, fact: Evidence, opened: _Open) -> RaisedException | None:
        text = fact.text
        if (frame := self._frame(text)) is not None:
            opened.library, opened.importing = frame
            opened.inside = installed(text)
            return None
        if text.startswith((" ", "\t")):
            opened.code = text
            return None
        found = _RAISED.match(text)
        if found is None or not _is_class(found["type"]) or not found["type"].endswith(opened.notebook):
            return None  # a different thread wrote between the frames
        del self._open[fact.origin]
        if found["type"].endswith("ImportError") and (imported := _IMPORTED.match(opened.code)):
            return RaisedException(fact, found["type"], opened.harmless, imported["package"], True, opened.inside)
        return RaisedException(fact, found["type"], opened.harmless, opened.library, opened.importing, opened.inside)

    def _frame(self, text: str) -> tuple[str, bool] | None:
        """Return the package of the frame on this line, with True for module-level code, or None without a frame."""
        for form in _FRAMES:
            if frame := form.match(text):
                self.where = _place(frame.groupdict()) or self.where
                return package(text), text.rstrip().endswith("in <module>")
        if self.where.startswith("<ipython") and ":" not in self.where and (arrow := _ARROW.match(text)):
            self.where += f":{arrow['line']}"
            return "", False
        notebook = _NOTEBOOK_FRAME.match(text)
        return None if notebook is None else (package(text), notebook["function"] == "<module>")


def _place(frame: Mapping[str, str | None]) -> str:
    """Return the location of a frame, such as "train.py:42 in step"; empty if it is not in the user's own code."""
    file, function, line = frame["file"] or "", frame.get("function") or "", frame.get("line")
    if _LIBRARY.search(file):
        return ""
    return file + (f":{line}" if line else "") + (f" in {function}" if function.isidentifier() else "")


def begins_traceback(text: str) -> bool:
    """True if the line starts a traceback."""
    return _HEAD_WITHOUT_T in text


def frame_on(text: str) -> tuple[str, int | None, str] | None:
    """Return the file, line and function (each may be unknown) of the frame on this line, or None without a frame."""
    for form in (*_FRAMES, _NOTEBOOK_FRAME):
        if (frame := form.match(text)) is not None:
            values = frame.groupdict()
            line = values.get("line")
            return (
                values["file"] or "",
                int(line) if line and len(line) < _LONGEST_LINE else None,
                values.get("function") or "",
            )
    return None


def is_in_library(file: str) -> bool:
    """True if the file of a frame belongs to Python, an installed package or oomph, rather than to the user."""
    return _LIBRARY.search(file) is not None


def is_of_traceback(text: str) -> bool:
    """True if the line starts a traceback, or is one of its frames, such as 'File "train.py", line 3, in main'."""
    return begins_traceback(text) or _FRAMES[0].match(text) is not None


def place_in_script(frame: str) -> str:
    """Return the location of a frame such as 'File "train.py", line 3, in main'; empty if it is in a library."""
    found = _FRAMES[0].match(frame)
    return "" if found is None else _place(found.groupdict())


def package(frame: str) -> str:
    """Return the package that a frame's file belongs to: "tensorflow", "keras", "h5py", …; empty for any other."""
    found = _RAISER.search(frame)
    return found["package"] if found else ""


def installed(frame: str) -> str:
    """Return the installed package, known or not, that a frame's file belongs to; empty for the user's own code."""
    found = _INSTALLED.search(frame)
    return found["package"] if found else ""


def _is_class(type_name: str) -> bool:
    last = type_name.rpartition(".")[2]
    return last[:1].isupper() or last in _SMALL_CLASSES or (last.startswith("_") and last.endswith("Error"))
