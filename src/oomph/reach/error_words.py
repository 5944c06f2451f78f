"""The telling part of an error's message, without the additions of Keras and TensorFlow. Pure."""

from __future__ import annotations

import re

from oomph.terminal.wrapping import shortened

_LONGEST, _LONGEST_CHAIN = 400, 20
_OOM = "OOM when allocating"
_NODES = re.compile(
    r"\[\[\{\{node [^]]{0,2000}\]\]|\{\{(?:function_)?node [^}]{0,2000}\}\}|\[Op:[^]]{0,500}\](?: name:\s*\Z)?"
    r"| on /job:\S{0,200}| by allocator \w{1,100}"
)
_COLOURS = re.compile(r"\x1b\[[\d;]{0,20}m")
_AROUND = re.compile(r"Exception encountered when calling |Graph execution error|Detected at node |File \"|\(\d\) ")
_LAST = ("Arguments received by ", "Call arguments received by ", "Stack trace for op", "Original stack trace")


def without_nodes(text: str) -> str:
    """The text without names of graph nodes, such as "[[{{node dense/MatMul}}]]", and without the device."""
    is_of_tensorflow = "{{" in text or "[Op:" in text or "/job:" in text
    return " ".join(_NODES.sub(" ", text).split()) if is_of_tensorflow else text


def what_went_wrong(text: str) -> str:
    """The telling lines of an error message, joined into one; empty if it has none."""
    told = []
    for line in map(without_nodes, _COLOURS.sub("", text).splitlines()):
        bare = line.strip()
        if bare.startswith(_LAST):
            break
        if bare and not _AROUND.match(bare):
            told.append(bare)
    words = " ".join(told) or without_nodes(" ".join(text.split()))
    return shortened(words, _LONGEST)


def is_of_memory(error: BaseException | None) -> bool:
    """True if the error, or its cause, says that memory has run out."""
    seen = 0
    while error is not None and seen < _LONGEST_CHAIN:
        if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError" or _OOM in _text(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def in_words(error: BaseException) -> str:
    """An error in one line: its class and what went wrong."""
    told = what_went_wrong(_text(error))
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(getattr(error, "message", None) or error)
    except Exception:
        return ""  # an exception whose __str__ fails
