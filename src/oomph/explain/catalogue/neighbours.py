"""The neighbours of a page, and how to tell it from each: read from its prose. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from oomph.explain.catalogue.fault import Fault
from oomph.files.patterns import lazy_pattern

SECTION = "How to tell it from its neighbours"

_CODE = lazy_pattern(r"\b[A-Z]{3}\d{3}\b")
_POINT = lazy_pattern(r"\n(?=- )|(?<=[.;]) (?=[A-Z`])")
_LEADING_CODES = lazy_pattern(r"\A(?:[A-Z]{3}\d{3}(?:, | and | to )?){1,9}:? ")


@cache
def neighbours(fault: Fault) -> Mapping[str, str]:
    """The codes that the page's section on its neighbours names, in that order, each with the sentence that says it."""
    told: dict[str, str] = {}
    for point in _POINT.split(fault.sections.get(SECTION, "")):
        text = " ".join(point.removeprefix("- ").split())
        for code in _CODE.findall(text):
            if code != fault.code:
                told.setdefault(code, _LEADING_CODES.sub("", text))
    return told
