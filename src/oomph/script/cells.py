"""Recognises the cells of a notebook in the process that runs them, and finds their text, number and id.

A cell is code that IPython runs: in a Jupyter kernel, in Colab, in a terminal, or in a shell within a script. IPython's
own frames around it differ from version to version, so a call is identified only by the frames up to the first of them.
Standard library only.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from oomph.files.cell_names import UNSOURCED, count_in, names_cell, site_of
from oomph.script import shell

MODULE = "<module>"
_INTERPRETERS = ("IPython", "ipykernel")
_MOST_FRAMES = 200
_MAGICS = ("run_cell_magic", "run_line_magic")
_TEXTS = ("expr", "cell", "stmt")
"""The local variables in which the functions of `%time` and `%timeit` hold the text that they run, preferred first."""


def is_cell(path: str) -> bool:
    """True if a file name belongs to a cell."""
    return names_cell(path) or path in _counts()


def site_at(path: str, line: int) -> str:
    """Return a file and line to show in messages: "train.py:42", or "cell [4], line 1"."""
    return site_of(path, line, _counts().get(path))


def site_in(frame: FrameType, line: int) -> str:
    """Return the site of a line of a frame's code. Lines below `%%time` are counted from the top of the cell."""
    path = frame.f_code.co_filename
    levels = [each for each in _outwards(frame) if is_cell_level(each)] if is_cell(path) else []
    own = next((number for number, each in enumerate(levels) if each.f_code.co_filename == path), len(levels))
    if own + 1 >= len(levels):
        return site_at(path, line)
    outer = levels[own + 1]
    above = 0 if _magic_of(frame) == "run_line_magic" else 1
    return site_in(outer, outer.f_lineno - 1 + above + line)


def source_file(frame: FrameType) -> str:
    """Return the name under which `linecache` has the text of a frame's code.

    If IPython does not keep the text, or gives all cells the same name, it is stored there under its own name.
    """
    path = frame.f_code.co_filename
    if path in UNSOURCED:
        text = _text_below_magic(frame)
    elif path in _counts() and not names_cell(path):  # IPYKERNEL_CELL_NAME gives all cells one name
        text = text_of(path)
    else:
        return path
    import linecache  # late: scripts never need it

    name = f"<cell {hashlib.sha256(text.encode(errors='backslashreplace')).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


def text_of(path: str) -> str:
    """Return the text of a cell or file; empty if unknown."""
    import linecache  # late: most scripts never need it

    return "".join(linecache.getlines(path))


def is_of_interpreter(frame: FrameType) -> bool:
    """True if a frame belongs to IPython or the kernel."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _INTERPRETERS


def is_cell_level(frame: FrameType) -> bool:
    """True if a frame runs a cell itself rather than one of its functions."""
    return is_cell(frame.f_code.co_filename) and function_in(frame.f_code) == MODULE


def function_in(code: CodeType) -> str:
    """Return the qualified name of the function that code belongs to, or "<module>" for a cell in any IPython."""
    name = str(getattr(code, "co_qualname", code.co_name))
    return MODULE if name.startswith("<cell line") or code.co_filename == "<magic-timeit>" else name


def running_id(frame: FrameType | None) -> str | None:
    """Return the id of the cell that a frame was called from, or None if the front end has not sent one."""
    for each in _outwards(frame):
        found = _lasting(each.f_locals.get("cell_id")) if is_of_interpreter(each) else None
        if found is not None:
            return found
    return _id_in_request()


def running_code(frame: FrameType | None) -> str:
    """Return a digest of the code of the cell that a frame was called from, ignoring comments and layout."""
    level = [each for each in _outwards(frame) if is_cell_level(each)][-1:]
    code = "".join(ast.dump(statement) for each in level for statement in statements_of(text_of(source_file(each))))
    return hashlib.sha256(code.encode(errors="backslashreplace")).hexdigest()[:16]


class Executed(NamedTuple):
    """The code that a kernel has executed up to a call."""

    cells: tuple[str, ...]
    """The texts of the cells that ran before; a text's index is its execution count."""
    running: str
    """The text of the cell that makes the call; empty for a call from another thread."""
    lines: tuple[int, ...]
    """The running line of that cell and, below a magic, of the text that the magic runs."""
    outermost: CodeType
    """The code of the user's outermost frame: the cell or, in another thread, a function."""


def executed_before(frame: FrameType | None) -> Executed | None:
    """Return the code executed before a call from a frame, or None outside notebooks."""
    history = getattr(getattr(shell.running(), "history_manager", None), "input_hist_parsed", None)
    frames = [each for each in _outwards(frame) if is_cell(each.f_code.co_filename)]
    if not frames or not isinstance(history, list):
        return None
    levels = [each for each in reversed(frames) if is_cell_level(each)]
    if not levels:
        return Executed(tuple(history), "", (), frames[-1].f_code)
    count = _count(levels[0].f_code.co_filename)
    text, lines = text_of(source_file(levels[0])), tuple(each.f_lineno for each in levels)
    return Executed(tuple(history[:count]), text, lines, levels[0].f_code)


class BelowMagic(NamedTuple):
    """A magic, and the text that it runs on."""

    magic: str
    text: str


def below_magic(statement: ast.stmt) -> BelowMagic | None:
    """Return the magic that a statement runs, with the text that the magic gets, or None for other statements."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _MAGICS:
        return None
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return BelowMagic(words[0], words[-1]) if len(words) > 1 else None


def as_python(text: str) -> str:
    """Return the text of a cell with its magics as function calls."""
    running = shell.running()
    try:
        return text if running is None else str(running.transform_cell(text))
    except Exception:
        return text  # a syntax error, which the cell itself raises


def starting_folder() -> str | None:
    """Return the folder in which IPython started, or None outside notebooks."""
    folder = getattr(shell.running(), "starting_dir", None)
    return folder if isinstance(folder, str) else None


def _counts() -> dict[str, int]:
    """Map the names of the cells that ran in this process to their latest execution counts."""
    found = getattr(getattr(shell.running(), "compile", None), "_filename_map", None)
    return found if isinstance(found, dict) else {}


def _count(path: str) -> int | None:
    return _counts().get(path, count_in(path))


def _id_in_request() -> str | None:
    """Return the id of the cell in the request that the kernel is answering. Jupyter's front ends send it."""
    try:
        return _lasting(shell.running().kernel.get_parent("shell")["metadata"]["cellId"])
    except Exception:
        return None  # not a kernel, an old one, or a front end without ids


def _lasting(found: Any) -> str | None:
    """Return an id if it has the form of those in a notebook's file, or None.

    VS Code's own ids change whenever the file is opened.
    """
    return found if isinstance(found, str) and re.fullmatch(r"[\w-]{1,64}", found, re.ASCII) else None


def _text_below_magic(frame: FrameType) -> str:
    """Return the text below a magic, such as `%%time`, that holds a frame's code; empty if there is none."""
    name, line = frame.f_code.co_name, frame.f_code.co_firstlineno
    is_level = function_in(frame.f_code) == MODULE
    return next((text for text in _texts_below_magics(frame) if is_level or _defines(text, name, line)), "")


def _texts_below_magics(frame: FrameType) -> Iterator[str]:
    for each in _outwards(frame.f_back):
        texts = (each.f_locals.get(name) for name in _TEXTS) if is_of_interpreter(each) else ()
        found = next((text for text in texts if isinstance(text, str) and text), None)
        if found is not None:
            yield as_python(found)
    history = getattr(getattr(shell.running(), "history_manager", None), "input_hist_parsed", None) or ()
    for text in reversed(history):
        below = [below_magic(statement) for statement in statements_of(text)] if any(m in text for m in _MAGICS) else []
        yield from (as_python(each.text) for each in below if each is not None)


@functools.lru_cache(maxsize=512)
def statements_of(text: str) -> tuple[ast.stmt, ...]:
    """Return the statements of a cell, or an empty tuple if the text is not Python."""
    try:
        return tuple(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _defines(text: str, function: str, line: int) -> bool:
    """True if a text defines a function of this name whose code starts at this line."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for statement in statements_of(text) for node in ast.walk(statement) if isinstance(node, functions))
    return any(
        node.name == function and line in (node.lineno, *(each.lineno for each in node.decorator_list))
        for node in nodes
    )


def _magic_of(frame: FrameType) -> str:
    """Return the name of IPython's function that runs the nearest magic around a frame, or "" if there is none."""
    names = (each.f_code.co_name for each in _outwards(frame) if is_of_interpreter(each))
    return next((name for name in names if name in _MAGICS), "")


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
