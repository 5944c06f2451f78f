"""Calls a public function with arguments that the user of a magic wrote as text, such as `model, x, y, epochs=5`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from oomph.errors import OomphError, UsageError
from oomph.explain.evidence.evidence import message_of

_COLLECTOR = "__oomph_arguments__"


def called(module: str, name: str, text: str, namespace: Mapping[str, Any]) -> Any:
    """Return the result of calling the function `name` of a module. Raises UsageError if that is not possible.

    Args:
        text: the arguments, separated by commas or, if none of them contains spaces, by spaces.
        namespace: the variables that the arguments refer to.
    """
    args, kwargs = arguments(name, text, namespace)
    if len(args) + ("x" in kwargs) + ("model" in kwargs) < 2:
        raise UsageError(f"pass a model and its data, as you would to fit: %oomph {name} model, x, y")
    function = getattr(importlib.import_module(module), name)
    try:
        return function(*args, **kwargs)
    except OomphError:
        raise
    except Exception as error:
        raise UsageError(f"%oomph {name}: {_in_words(error)}") from error


def arguments(name: str, text: str, namespace: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate arguments. Raises UsageError if they are not valid Python or raise an exception."""
    variables = {**namespace, _COLLECTOR: lambda *args, **kwargs: (args, kwargs)}
    try:
        found: tuple[tuple[Any, ...], dict[str, Any]] = eval(_compiled(text), variables)
    except SyntaxError:
        raise UsageError(f"the arguments are not valid Python: write %oomph {name} model, x, y") from None
    except Exception as error:
        raise UsageError(f"%oomph {name}: {_in_words(error)}") from error
    return found


def _compiled(text: str) -> Any:
    try:
        return compile(f"{_COLLECTOR}({text})", "<magic>", "eval", dont_inherit=True)
    except SyntaxError:
        return compile(f"{_COLLECTOR}({', '.join(text.split())})", "<magic>", "eval", dont_inherit=True)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {message_of(error)}"
