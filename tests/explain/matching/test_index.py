"""Signatures are indexed by words, and fast matching of a log finds the same as slow matching."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.explain.catalogue.catalogue import key, load
from oomph.explain.diagnose import diagnose, words
from oomph.explain.evidence.evidence import TEXT_LIMIT, Evidence
from oomph.explain.matching.hits import index
from oomph.explain.reading.log import read_log

LOGS = Path(__file__).parents[2] / "logs"
SLOWEST = 0.5  # seconds for a text of TEXT_LIMIT designed to be slow; a linear pass takes milliseconds


@pytest.mark.parametrize(
    ("literal", "word"),
    [
        ("ut of memory while trying to allocate", "trying"),
        ("OOMKilled", "OOMKilled"),
        ("is not in [0,", "not"),
        ("CUDA_ERROR_NO_DEVICE", "CUDA"),
    ],
)
def test_literal_is_indexed_under_a_rare_whole_word(literal: str, word: str) -> None:
    assert key(literal) == word


def test_literal_without_a_word_is_rejected() -> None:
    with pytest.raises(ValueError, match="word"):
        key("(): ")


def test_every_literal_is_found_through_the_index() -> None:
    catalogue = load()
    for fault in catalogue:
        for signature in fault.signatures:
            for source in signature.sources:
                text = f"before {signature.literal} after"
                assert (fault, signature) in list(index(catalogue).candidates(source, text)), signature.literal


@pytest.mark.parametrize("path", sorted(LOGS.rglob("*.log")), ids=lambda path: str(path.relative_to(LOGS)))
def test_indexed_reading_finds_the_same_faults_as_full_reading(path: Path) -> None:
    def found(quick: bool) -> list[tuple[str, str, float]]:
        with path.open("rb") as stream:
            diagnoses = diagnose(read_log(stream, words=words() if quick else None))
        return [(each.name, each.role, each.confidence) for each in diagnoses]

    assert found(True) == found(False)


def test_long_log_is_read_at_twenty_megabytes_per_second() -> None:
    data = b"2024-01-01 10:00:00,123 INFO trainer: worker 12 did step 1234 in 0.123 s, loss 0.1234 lr 0.001\n" * 50_000
    diagnose([])

    def seconds() -> float:
        started = time.process_time()
        assert diagnose(read_log(io.BytesIO(data), words=words())) == ()
        return time.process_time() - started

    assert len(data) / min(seconds() for _ in range(3)) > 20e6


def spent(text: str) -> float:
    started = time.process_time()
    diagnose([Evidence("log", text), Evidence("exception", text)])
    return time.process_time() - started


def test_line_containing_every_literal_is_read_in_linear_time() -> None:
    """Each signature is matched against text full of every other signature's words."""
    pieces = [signature.literal for fault in load() for signature in fault.signatures if "log" in signature.sources]
    diagnose([])  # the catalogue is read only once
    for start in range(0, len(pieces), 40):
        once = " ".join(pieces[start : start + 40])
        assert spent((once * 10)[:TEXT_LIMIT]) < SLOWEST


@pytest.mark.parametrize("filler", ["a", "0", " ", "(", "[", ".", "a.", "1,", "' ", ": "], ids=repr)
def test_literal_repeated_with_filler_does_not_make_a_pattern_slow(filler: str) -> None:
    diagnose([])
    for fault in load():
        for signature in fault.signatures:
            text = ((signature.literal + filler * 40) * 200)[:TEXT_LIMIT]
            started = time.process_time()
            signature.match(text)
            assert time.process_time() - started < SLOWEST, signature.pattern


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["CUDA_ERROR", "shape", "[", "(None, 3)", "labels", "loss: nan", "\n", "a" * 50, "=", "1"])
    )
)
def test_mixed_literals_are_read_in_linear_time(parts: list[str]) -> None:
    assert spent((" ".join(parts) * 50)[:TEXT_LIMIT]) < SLOWEST


_MAY_GO_ON = re.compile(r"\\w|\(\?!|\[A-Za-z|\(\?:s\||s\?")


def test_literal_is_never_indexed_under_a_word_that_may_continue() -> None:
    """The index uses whole words: `hipError` would not be found in `hipErrorUnknown`."""
    dead = []
    for fault in load():
        for signature in fault.signatures:
            literal = signature.literal
            after = signature.pattern.partition(literal)[2] if literal in signature.pattern else ""
            if not signature.goes_on and literal.endswith(key(literal)) and _MAY_GO_ON.match(after):
                dead.append((fault.name, literal))
    assert dead == []


@pytest.mark.parametrize("word", ["hipErrorPeerAccessUnsupported", "miopenStatusVersionMismatch", "librocmsmi64.so"])
def test_literal_starting_a_longer_word_is_found_in_a_long_log(word: str) -> None:
    noise = b"INFO step 12 of 5000\n" * 20_000
    found, *_ = diagnose(read_log(io.BytesIO(noise + f"failed with {word}\n".encode() + noise), words=words()))
    assert (found.name, found.evidence[0].line) == ("rocm-failure", 20_001)
