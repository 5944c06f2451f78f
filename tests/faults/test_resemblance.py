"""Which pages a text is like, by the words that it shares with them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.faults.catalogue import load
from oomph.faults.resemblance import THIN, Resemblance, resemblance

PAGES = {
    "fire": "smoke rises from the kitchen, the kitchen burns",
    "flood": "water rises in the cellar",
    "theft": "the cellar is empty",
}


def test_a_rare_word_says_more_than_a_common_one() -> None:
    first, second, third = Resemblance(PAGES).of("the smoke rises")
    assert first.name == "fire"
    assert first.confidence > second.confidence > third.confidence > 0


def test_a_page_is_like_itself_and_a_text_without_its_words_is_not() -> None:
    words = Resemblance(PAGES)
    assert words.of(PAGES["flood"])[0].name == "flood"
    assert {likeness.confidence for likeness in words.of("nothing of that kind")} == {0}
    assert {likeness.confidence for likeness in words.of("")} == {0}


def test_pairs_of_words_and_the_parts_of_long_names_count() -> None:
    words = Resemblance({"one": "kernel image", "other": "image kernel"})
    assert words.of("no kernel image")[0].name == "one"
    assert words.of("NoKernelImage")[0].name == "one"
    assert words.of("no_kernel_image")[0].name == "one"


@settings(max_examples=200)
@given(st.text())
def test_any_text_gets_a_likeness_from_0_to_1_to_every_page(text: str) -> None:
    found = Resemblance(PAGES).of(text)
    assert {likeness.name for likeness in found} == set(PAGES)
    assert all(0 <= likeness.confidence <= 1 for likeness in found)
    assert [likeness.confidence for likeness in found] == sorted((x.confidence for x in found), reverse=True)


UNKNOWN = {
    "the cuda context of the gpu was lost after an access to an address that is not its own": "illegal-memory-access",
    "worker 3 of the cluster can not be reached any more, its peers gave up": "worker-lost",
    "the installed wheel of tensorflow was built without cuda": "cpu-only-build",
    "cgroup limit reached, memory of the container used up": "host-oom",
}


@pytest.mark.parametrize(("text", "name"), UNKNOWN.items(), ids=UNKNOWN.values())
def test_words_that_no_signature_knows_resemble_their_page(text: str, name: str) -> None:
    near = resemblance(load(), ()).of(text)[:3]
    assert name in {likeness.name for likeness in near if likeness.confidence >= THIN}
