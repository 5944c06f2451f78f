"""No log line takes long to match, however crafted: every pattern is pumped with what its own grammar allows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Iterator

import pytest
from attacks import attacks

from oomph import doctor, gpu
from oomph import explain as faults
from oomph import run as recovery
from oomph.explain.catalogue.catalogue import load
from oomph.explain.evidence.evidence import TEXT_LIMIT
from oomph.explain.matching import systems
from oomph.explain.reading import original_lines
from oomph.files.patterns import LazyPattern

pytestmark = pytest.mark.alone

SECONDS = 0.1
"""The limit for a line of 4096 characters, on a busy machine; a sound pattern takes a few milliseconds."""
GIVEN_UP = 2.0


class TooSlowError(Exception):
    """Raised if a single search did not finish."""


def _stop(signum, frame):
    raise TooSlowError


def slowest(pattern: re.Pattern, search) -> tuple[float, str]:
    """Return the CPU seconds of the worst text, and how it begins; the faster of two runs counts."""
    worst, text = 0.0, ""
    before = signal.signal(signal.SIGALRM, _stop)
    try:
        for attack in attacks(pattern, TEXT_LIMIT):
            seconds = timed(search, attack)
            if seconds > SECONDS:  # something else may have interfered
                seconds = min(seconds, timed(search, attack))
            if seconds > worst:
                worst, text = seconds, attack[:80]
            if worst >= GIVEN_UP:
                break
    finally:
        signal.signal(signal.SIGALRM, before)
    return worst, text


def timed(search, text) -> float:
    started = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, 5 * GIVEN_UP)
    try:
        search(text)
    except TooSlowError:
        return GIVEN_UP
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return time.process_time() - started


def test_pattern_with_nonlinear_time_is_detected():
    for pattern in (r"xla[\w/]*/[\w/]+\.cc", r"(a+)+b", r"(?:\w+ ?)*:", r"/\S*device:\S+ unknown"):
        compiled = re.compile(pattern)
        assert slowest(compiled, compiled.search)[0] > SECONDS, pattern


@pytest.mark.parametrize("domain", sorted({fault.domain for fault in load()}))
def test_every_signature_is_matched_in_linear_time(domain):
    patterns = {s.pattern: fault.name for fault in load() if fault.domain == domain for s in fault.signatures}
    patterns.pop("", None)
    slow = {}
    for pattern, name in patterns.items():
        compiled = re.compile(pattern)
        seconds, text = slowest(compiled, compiled.search)
        if seconds > SECONDS:
            slow[pattern] = (name, round(seconds, 3), text)
    assert slow == {}


def modules() -> Iterator[str]:
    for package in (faults, recovery, doctor, gpu):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield found.name


def patterns_in(value) -> Iterator[re.Pattern]:
    if isinstance(value, (re.Pattern, LazyPattern)):
        yield re.compile(value.pattern, value.flags)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from patterns_in(each)


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_pattern_of_a_module_is_applied_in_linear_time(name):
    source = inspect.getsource(importlib.import_module(name))
    slow = {}
    for variable, value in vars(importlib.import_module(name)).items():
        for pattern in patterns_in(value):
            if not re.search(rf"^{variable}\b.* = ", source, re.MULTILINE):
                continue  # it belongs to a different module
            anchored = not re.search(rf"\b{variable}\.(?:search|sub|finditer|findall|split)\(", source)
            seconds, text = slowest(pattern, pattern.match if anchored else pattern.search)
            if seconds > SECONDS:
                slow[variable] = (round(seconds, 3), text)
    assert slow == {}


@pytest.mark.parametrize("name", ["_GLUED", "_JOINED", "_BEGINS", "_FRAME", "_HEAD_GOES_ON", "_OF_ERROR"])
def test_line_splitting_patterns_take_linear_time(name):
    (pattern,) = patterns_in(vars(original_lines)[name])
    seconds, text = slowest(pattern, pattern.search if name != "_JOINED" else pattern.split)
    assert seconds <= SECONDS, text


@pytest.mark.parametrize("sign", [*systems._MACHINES, *systems._AROUND], ids=lambda sign: sign.system)
def test_system_recognition_patterns_take_linear_time(sign):
    (pattern,) = patterns_in(sign.pattern)
    seconds, text = slowest(pattern, pattern.search)
    assert seconds <= SECONDS, text
