"""Faults suggested by the words in a log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching import classifier
from oomph.explain.matching.classifier import ALWAYS, SOUND, TABLE, Classifier, EvidenceSample, trained, words

LEARNED = f"""{ALWAYS} 0 OOM101=0 {SOUND}=50
exhausted 300 OOM101=400
killed 200 OOM110=300 OOM101=-100
epoch 100 {SOUND}=500
"""


def of(*lines: str) -> list[Evidence]:
    return [Evidence("log", line, number) for number, line in enumerate(lines, 1)]


def sample(*lines: str) -> EvidenceSample:
    kept = EvidenceSample()
    for fact in of(*lines):
        kept.see(fact)
    return kept


def test_words_raise_the_share_of_some_faults_and_lower_that_of_others() -> None:
    learned = Classifier(LEARNED, load())
    exhausted, killed = learned.shares(["ResourceExhausted"]), learned.shares(["Killed"])
    assert exhausted.faults[0].name == "device-oom"
    assert killed.faults[0].name == "host-oom"
    assert killed.of("device-oom") < learned.shares([]).of("device-oom") < exhausted.of("device-oom")
    assert learned.shares(["Epoch 1/5"]).sound > 0.9
    assert (exhausted.words, learned.shares(["neither of these"]).words) == (1, 0)


def test_repeated_words_are_listed_once_and_compound_names_are_split() -> None:
    assert words(["ResourceExhaustedError: exhausted", "Error 137"]) == ["137", "error", "exhausted", "resource"]


def test_most_telling_line_for_a_fault_is_found() -> None:
    learned = Classifier(LEARNED, load())
    oom = next(fault for fault in load() if fault.name == "device-oom")
    told = of("Epoch 1", "memory exhausted", "killed", "exhausted again")
    assert learned.telling(told, oom) == told[1]
    assert learned.telling(told[:1], oom) is None


@settings(max_examples=200)
@given(st.text())
def test_classifier_shares_of_any_text_add_up_to_one(text: str) -> None:
    shares = trained(load()).shares([text])
    assert sum(page.confidence for page in shares.faults) + shares.sound == pytest.approx(1)
    assert [page.confidence for page in shares.faults] == sorted((p.confidence for p in shares.faults), reverse=True)


def test_damaged_line_in_the_word_table_is_ignored() -> None:
    learned = Classifier("exhausted 3x OOM101=4\nkilled 200 OOM110\nepoch 100 sound=500\n", load())
    assert learned.shares(["exhausted, killed"]).words == 0
    assert learned.shares(["epoch"]).sound == 1


def test_missing_word_table_causes_neither_a_diagnosis_nor_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "TABLE", TABLE.with_name("none.txt"))
    trained.cache_clear()
    try:
        assert diagnose(of("the grpc channel to peer task worker 2 is dead: unavailable")) == ()
    finally:
        trained.cache_clear()


def test_word_table_lines_have_a_word_and_weights_for_known_pages() -> None:
    codes = {fault.code for fault in load()} | {SOUND}
    lines = [line.split(" ") for line in TABLE.read_text(encoding="ascii").splitlines()]
    assert [word for word, *_ in lines] == sorted({word for word, *_ in lines})
    assert {pair.partition("=")[0] for _, _, *pairs in lines for pair in pairs} <= codes
    assert all(words([word]) == [word] and int(rarity) > 0 for word, rarity, *_ in lines if word != ALWAYS)


def test_classifier_identifies_most_page_examples() -> None:
    """None of the examples comes from the logs that the classifier was trained on. It need not know every page."""
    known = {pair.partition("=")[0] for line in TABLE.read_text().splitlines() for pair in line.split(" ")[2:]}
    pages = [fault for fault in load() if fault.code in known]
    shares = {fault.name: trained(load()).shares(fault.example.splitlines()) for fault in pages}
    first = [name for name, share in shares.items() if share.faults[0].name == name]
    near = [name for name, share in shares.items() if name in [page.name for page in share.faults[:3]]]
    assert len(first) >= 0.85 * len(shares)
    assert len(near) >= 0.93 * len(shares)


def test_log_sample_keeps_the_beginning_and_the_end() -> None:
    kept = sample(*(f"line {number}" for number in range(10_000)))
    assert (kept.facts[0].line, kept.facts[199].line, kept.facts[200].line, kept.facts[-1].line) == (
        1,
        200,
        9_601,
        10_000,
    )


def test_harmless_lines_and_survived_errors_are_excluded_from_the_sample() -> None:
    outlived, later = "ValueError: the shape is wrong", "E bar.cc:1] the allocator failed"
    kept = sample("E cuda_dnn.cc:1] Attempting to register factory for plugin", outlived, "Epoch 2/5 loss: 0.3", later)
    assert [fact.text for fact in kept.in_force] == ["Epoch 2/5 loss: 0.3", later]
    assert len(kept.facts) == 4
