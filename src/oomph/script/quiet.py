"""Keeps oomph's own activity out of the script's warnings and logging. Standard library only."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore warnings of a category while oomph inspects the script's own objects.

    `warnings.catch_warnings` and `simplefilter` invalidate all registries, after which the script would show the same
    warnings again. A warning that is ignored is not registered, so the script's own call still shows it.
    """
    filters = warnings.filters
    warnings.filters = [("ignore", None, category, None, 0), *filters]
    try:
        yield
    finally:
        warnings.filters = filters


@contextmanager
def without_configuring_logging() -> Iterator[None]:
    """Leave the root logger as it is while TensorFlow does something that logs a line.

    TensorFlow logs through absl, which calls `logging.basicConfig` first. Every line from TensorFlow's own logger would
    then be written twice, and the script's own call to `basicConfig` would have no effect.
    """
    root = logging.getLogger()
    had_none = not root.handlers
    try:
        yield
    finally:
        for handler in root.handlers[:] if had_none else ():
            if type(handler) is logging.StreamHandler and handler.stream is sys.stderr:
                root.removeHandler(handler)
