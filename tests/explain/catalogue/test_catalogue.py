"""Every page is complete, and its example is its own test."""

from __future__ import annotations

import gc
import io
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from oomph.explain.catalogue.catalogue import PageError, find, load, parse_page
from oomph.explain.catalogue.fault import Fault
from oomph.explain.diagnose import diagnose
from oomph.explain.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.explain.reading.log import read_log

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser

FAULTS = load()
by_code = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)


def read_example(fault: Fault) -> list[Evidence]:
    return list(read_log(io.BytesIO(fault.example.encode())))


@by_code
def test_page_example_is_diagnosed_as_its_fault(fault: Fault) -> None:
    diagnoses = diagnose(read_example(fault))
    assert diagnoses[0].code == fault.code
    assert diagnoses[0].role == "cause"
    assert diagnoses[0].evidence


@by_code
def test_page_example_is_not_diagnosed_as_another_fault(fault: Fault) -> None:
    others = [other for other in FAULTS if other is not fault]
    assert [other.code for other in others if diagnose(read_example(other))[0].code == fault.code] == []


@by_code
def test_pattern_groups_have_lowercase_names_joined_by_underscores(fault: Fault) -> None:
    for signature in fault.signatures:
        names = re.compile(signature.pattern).groupindex
        assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


@by_code
def test_required_signatures_come_earlier_on_the_same_page(fault: Fault) -> None:
    ids: set[str] = set()
    for signature in fault.signatures:
        assert ids.issuperset(signature.needs)
        ids.add(signature.id)


@by_code
def test_unless_and_beside_refer_to_signatures_on_the_same_page(fault: Fault) -> None:
    ids = {signature.id for signature in fault.signatures}
    assert ids.issuperset(name for each in fault.signatures for name in (*each.unless, *each.beside))


@by_code
def test_no_pattern_has_nested_unbounded_repeats(fault: Fault) -> None:
    """Nested unbounded repeats make matching exponential."""
    for pattern in (*(each.pattern for each in fault.signatures), *(each.says for each in fault.answers)):
        assert deepest_repeat(parser.parse(pattern)) <= 1, pattern


@by_code
@pytest.mark.parametrize("filler", ["a", " ", "1", "/", "(", "Killed "], ids=repr)
def test_pattern_is_fast_on_a_long_near_match(fault: Fault, filler: str) -> None:
    for signature in fault.signatures:
        text = (signature.literal + filler * TEXT_LIMIT)[:TEXT_LIMIT]
        signature.match("")  # compiles the pattern, which is not part of the cost of a line
        assert took(partial(signature.match, text)) < 0.1, signature.pattern
    texts = [filler * TEXT_LIMIT]
    for answer in fault.answers:
        re.compile(answer.says)
        assert took(partial(answer.answered, texts)) < 0.1, answer.says


def took(work: Callable[[], object]) -> float:
    """Return the processor time of one call, without collecting the garbage that other tests left."""
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        gc.enable()


def deepest_repeat(pattern: object) -> int:
    """Return how deeply unbounded repeats are nested."""
    deepest = 0
    for operation, argument in pattern:  # type: ignore[attr-defined]
        name, inner = str(operation), []
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low_high, inner = argument[:2], [argument[2]]
            own = int(low_high[1] is parser.MAXREPEAT)
        else:
            own = 0
            if name == "SUBPATTERN":
                inner = [argument[3]]
            elif name == "BRANCH":
                inner = list(argument[1])
        deepest = max([deepest, *(own + deepest_repeat(part) for part in inner)])
    return deepest


def test_codes_and_names_are_unique() -> None:
    assert len({fault.code for fault in FAULTS}) == len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_consequences_are_faults_in_the_catalogue() -> None:
    names = {fault.name for fault in FAULTS}
    assert {name for fault in FAULTS for name in fault.leads_to} <= names


def test_fault_lookup_by_code_or_name_ignores_case() -> None:
    by_name = find("Device-OOM")
    assert by_name is not None
    assert by_name is find("oom101")
    assert find("no-such-fault") is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("+++", "---"), "not enough values"),
        (('severity = "recoverable"', 'severity = "bad"'), "severity"),
        (("## Why\n", "## Because\n"), "headings"),
        (('name = "device-oom"', 'name = "Device OOM"'), "CODE-name.md"),
        (('code = "OOM101"', "code = "), "Invalid value"),
        (("confidence = 0.97", "certainty = 0.97"), "certainty"),
    ],
)
def test_invalid_page_is_rejected_with_the_reason(change: tuple[str, str], complaint: str) -> None:
    source = Path(__file__).parents[3] / "src/oomph/explain/pages/memory/OOM101-device-oom.md"
    with pytest.raises(PageError, match=complaint):
        parse_page(source.read_text().replace(*change).encode(), source)


def test_driver_status_number_belongs_to_one_fault() -> None:
    numbers = Counter(
        number
        for fault in load()
        for each in fault.signatures
        if each.literal == "CUDA_SUCCESS"
        for number in each.pattern.partition("<status>")[2].partition(")")[0].split("|")
    )
    assert len(numbers) > 20
    assert set(numbers.values()) == {1}
