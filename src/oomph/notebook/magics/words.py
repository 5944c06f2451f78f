"""The magics `%oomph WORD` and `%%oomph isolate NAME ...`.

A word prints its answer or returns a value for the cell to show. A failure is reported in one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from oomph.errors import OomphError, UsageError
from oomph.script import session, shell

_NAME, _ISOLATE = "oomph", "isolate"


def register(shell: Any, run_dir: Path | None = None, fresh: Callable[[], None] | None = None) -> Callable[[], None]:
    """Make `%oomph` and `%%oomph` available in an IPython shell. Return a function that removes them.

    Args:
        run_dir: the run directory of the notebook, used until this process has joined a run.
        fresh: called for `%oomph fresh`; None in a notebook under `oomph run`.
    """
    from IPython.core.magic import no_var_expand  # late: only a process with a shell is sure to have IPython

    @no_var_expand  # braces in an argument are a dict or set, not a variable to expand
    def oomph(line: str, cell: str | None = None) -> Any:
        """Ask oomph: `%oomph` lists the words, `%%oomph isolate NAME ...` runs a cell in a process of its own."""
        asked = Asked(shell, _run_dir(run_dir), fresh, *_split(line))
        return _answer(asked) if cell is None else _isolate(asked, cell)

    shell.register_magic_function(oomph, "line_cell", _NAME)

    def unregister() -> None:
        for magics in shell.magics_manager.magics.values():
            magics.pop(_NAME, None)

    return unregister


class Asked(NamedTuple):
    """One use of the magic."""

    shell: Any
    run_dir: Path | None
    """The run directory of this notebook, or None if there is none or it is unknown."""
    fresh: Callable[[], None] | None
    word: str
    rest: str
    """The text after the word."""


def _split(line: str) -> tuple[str, str]:
    word, _, rest = line.strip().partition(" ")
    return word, rest.strip()


def _run_dir(otherwise: Path | None) -> Path | None:
    joined = session.current()
    return otherwise if joined is None or joined.run_dir is None else joined.run_dir


def _answer(asked: Asked) -> Any:
    try:
        if asked.word:
            word = _word(asked.word)
            if asked.rest and not word.takes_more:
                raise UsageError(f"%{_NAME} {asked.word} takes no further words: leave out {asked.rest}")
            return word.answer(asked)
        _print(_list())
    except OomphError as error:
        session.say(str(error))
    except Exception as error:
        session.say(f"%{_NAME} {asked.word} failed: {type(error).__name__}: {error}")
    return None


def _isolate(asked: Asked, cell: str) -> None:
    """Run the cell. Raises an exception if it is not run or fails, so that the cells after it do not run either.

    The exception is shown in a few words or as the cell's own traceback.
    """
    from oomph.notebook.magics.isolated_cell import raise_shown, run_isolated

    if asked.word != _ISOLATE:
        error = UsageError(f"only %%{_NAME} {_ISOLATE} takes a cell; the other words follow %{_NAME}")
        raise_shown(error, [f"oomph: {error}"])
    run_isolated(asked.shell, asked.rest.replace(",", " ").split(), cell)


def _word(word: str) -> _Word:
    if word in _WORDS:
        return _WORDS[word]
    from difflib import get_close_matches  # late: an import here delays every kernel's start

    close = get_close_matches(word.casefold(), _WORDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the words are {', '.join(_WORDS)}"
    raise UsageError(f"%{_NAME} has no word {word}; {hint}")


def _list() -> list[str]:
    room = max(map(len, _WORDS))
    return [f"{'%' * (1 + (word == _ISOLATE)):>2}{_NAME} {word:<{room}}  {_WORDS[word].summary}" for word in _WORDS]


# -- the words --------------------------------------------------------------------------------------------------------


def _status(asked: Asked) -> None:
    from oomph.notebook.magics.kernel_status import status

    joined = session.current()
    if joined is None:
        raise UsageError("no training has been guarded in this kernel yet")
    _print(status(joined))


def _doctor(asked: Asked) -> None:
    from oomph.doctor import examine, render
    from oomph.doctor.observe import observe

    snapshot = observe(sys.executable, say=session.say)
    _print([render.as_text(snapshot, examine.examine(snapshot)).rstrip()])


def _explain(asked: Asked) -> None:
    from oomph.notebook.magics.last_error import explained

    _print([explained(getattr(sys, "last_value", None))])


def _check(asked: Asked) -> Any:
    from oomph.notebook.magics.named_call import called

    return _shown(called("oomph.api.check_fit", "check", asked.rest, asked.shell.user_ns))


def _plan(asked: Asked) -> Any:
    from oomph.notebook.magics.named_call import called

    return _shown(called("oomph.api.memory_plan", "plan", asked.rest, asked.shell.user_ns))


def _shown(result: Any) -> Any:
    """Return a result, which a notebook displays; print it on a terminal, which only shows its one-line `repr`."""
    if not shell.is_kernel():
        _print([str(result)])
    return result


def _fresh(asked: Asked) -> None:
    if asked.fresh is None:
        raise UsageError("this notebook runs under oomph run: to train from the beginning, start it with --start-over")
    asked.fresh()


def _again(asked: Asked) -> None:
    from oomph.notebook.magics.kernel_status import cells_of_last_kernel

    joined = session.current()
    if asked.run_dir is None:
        raise UsageError("this notebook has no run directory, so no cells are recorded")
    _print(cells_of_last_kernel(asked.run_dir, None if joined is None else joined.handover.attempt))


def _needs_a_cell(asked: Asked) -> None:
    raise UsageError(f"{_ISOLATE} takes a cell: put %%{_NAME} {_ISOLATE}, with two percent signs, on its first line")


def _print(lines: list[str]) -> None:
    print("\n".join(lines))


class _Word(NamedTuple):
    """A word after `%oomph`: its line in the list of words, and the function that answers it."""

    summary: str
    answer: Callable[[Asked], Any]
    takes_more: bool = False
    """True if words may follow it."""


_WORDS: Mapping[str, _Word] = {
    "status": _Word("the fits of this kernel, and the steps that are saved", _status),
    "doctor": _Word("whether this machine can train, and if not, what to do", _doctor),
    "explain": _Word("the last error of this kernel, and what to do", _explain),
    "plan": _Word("the memory that a training needs, for example: %oomph plan model, x, y", _plan, True),
    "check": _Word("mistakes in a model and its data, for example: %oomph check model, x, y, epochs=5", _check, True),
    "fresh": _Word("set aside what earlier kernels have saved, and train from the beginning", _fresh),
    "again": _Word("the cells that the last kernel ran, in order", _again),
    _ISOLATE: _Word(
        "run the cell in a process of its own, and bring back the variables named after it", _needs_a_cell, True
    ),
}
