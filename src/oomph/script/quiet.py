"""Ignores warnings for a moment without Python forgetting which ones it has shown. Standard library only."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_warnings(category: type[Warning] = Warning) -> Iterator[None]:
    """Ignore the warnings of a category while the script's own objects are looked at.

    `warnings.catch_warnings` and `simplefilter` declare all registries outdated, and the script would then show again
    what it has already shown. An ignored warning is not registered, so the script's own call still shows it.
    """
    filters = warnings.filters
    warnings.filters = [("ignore", None, category, None, 0), *filters]
    try:
        yield
    finally:
        warnings.filters = filters
