"""A page without advice on an error gives that of another page, if it is not sure of itself."""

from __future__ import annotations

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.borrowed import borrowed

ERROR = "ValueError: The training dataset must have an asserted cardinality"


def advice(text: str) -> str:
    _, signatures = borrowed(load(), (Evidence("log", text, 1),), lambda _: frozenset())
    return "".join(signature.advice for signature in signatures)


def test_advice_is_borrowed_from_a_matching_wording_of_another_page() -> None:
    assert "TFTrainer" in advice(ERROR)


def test_advice_is_borrowed_from_a_specific_page_before_plain_errors() -> None:
    assert "moments" not in advice("TypeError: build() got an unexpected keyword argument 'zoom'")
    captured, signatures = borrowed(
        load(), (Evidence("log", "AttributeError: 'DataFrame' object has no attribute 'ix'", 1),), lambda _: frozenset()
    )
    assert signatures
    assert set(captured) <= {"class", "name"}


def test_unknown_words_borrow_no_advice() -> None:
    assert advice("ValueError: something of my own") == ""


def test_borrowed_advice_comes_first_in_a_guess_without_its_own() -> None:
    (first, *_) = diagnose_log(ERROR.encode())
    assert first.confidence <= 0.5
    assert "TFTrainer" in first.remedies[0].text


def test_unrelated_error_also_borrows_advice_from_another_page() -> None:
    traceback = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    build()\n'
    (first, *_) = diagnose_log(f"{traceback}ImportError: cannot import name layer_from_config".encode())
    assert first.name == "unrelated"
    assert "deserialize as layer_from_config" in first.remedies[0].text


def test_later_lines_of_a_keras_message_are_searched() -> None:
    announced = "OperatorNotAllowedInGraphError: Exception encountered when calling Informer.call()."
    (first, *_) = diagnose_log(f"{announced}\n\nIterating over a symbolic `tf.Tensor` is not allowed.".encode())
    assert "b, h, w = x.shape" in first.remedies[0].text
