"""Guesses based only on the words in a log, and advice borrowed from another page."""

from __future__ import annotations

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose, diagnose_log
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.guesses import Guesses, borrowed, lent_answers
from oomph.explain.matching.hits import narrowed
from oomph.explain.matching.likeness import Likeness
from oomph.explain.matching.named_fault import CAUSE, Diagnosis

PEER = "the grpc channel to peer task worker 2 is dead: unavailable"
UNKNOWN = "tensorflow.python.framework.errors_impl.UnavailableError: the grpc channel to peer task worker 2 is shut"


def of(*lines: str) -> list[Evidence]:
    return [Evidence("log", line, number) for number, line in enumerate(lines, 1)]


def guesses(*lines: str) -> Guesses:
    return Guesses(of(*lines), load())


def named(found: list[Diagnosis]) -> list[str]:
    return [diagnosis.name for diagnosis in found]


def general(name: str, text: str, confidence: float = 0.5) -> Diagnosis:
    return Diagnosis(next(f for f in load() if f.name == name), CAUSE, confidence, tuple(of(text)))


def test_guess_is_the_likeliest_page_with_its_supporting_line() -> None:
    (first,) = guesses("INFO start of job", PEER).out_of_silence(failed=True, set_aside=())
    assert (first.name, first.evidence[0].text) == ("worker-lost", PEER)
    assert first.confidence <= 0.5


def test_log_wording_refines_the_guessed_pages_remedy() -> None:
    lost = "kernel driver does not appear to be running on this host (login05)"
    page = Likeness("driver-missing", 0.5)
    assert "login05 is a login node" in guesses(lost)._diagnosis(page).remedies[0].text
    assert "login" not in guesses("no driver")._diagnosis(page).remedies[0].text


def test_related_evidence_changes_the_advice_for_a_wording() -> None:
    keras = next(fault for fault in load() if fault.name == "keras-version-mismatch")
    line = of("Unrecognized keyword arguments passed to LSTM: {'batch_input_shape': (1, 1, 7)}")
    alone, in_company = (narrowed(keras, line, ids)[1] for ids in (frozenset[str](), frozenset({"reads-model"})))
    assert any("Make keras.Input" in signature.advice for signature in alone)
    assert not any("Make keras.Input" in signature.advice for signature in in_company)


def test_too_few_words_or_healthy_training_lead_to_no_guess() -> None:
    assert guesses("worker dead").out_of_silence(failed=True, set_aside=()) == []
    sound = ("Epoch 1/2", "313/313 [====] - 2s 6ms/step - loss: 0.31 - accuracy: 0.91 - val_loss: 0.29")
    assert guesses(*sound).out_of_silence(failed=True, set_aside=()) == []
    assert Guesses([], load()).out_of_silence(failed=True, set_aside=()) == []


def test_fault_ruled_out_by_signatures_is_not_guessed() -> None:
    assert guesses(PEER).out_of_silence(failed=True, set_aside=("worker-lost",)) == []


def test_general_error_ranks_below_a_page_matching_its_words() -> None:
    first, second = guesses(UNKNOWN, PEER).reconsidered([general("unrecognised", UNKNOWN)])
    assert (first.name, second.name) == ("worker-lost", "unrecognised")
    assert second.confidence <= 0.5


def test_script_error_in_a_log_without_signs_of_training_stays_unrelated() -> None:
    error = "AttributeError: module 'umap' has no attribute 'UMAP'"
    assert named(guesses(error).reconsidered([general("unrelated", error, 0.9)])) == ["unrelated"]


def test_assertion_failure_in_the_program_stays_unrecognised() -> None:
    error = "assertion failed: [Condition x < y did not hold element-wise:] labels out of range, num classes"
    assert named(guesses(error, PEER).reconsidered([general("unrecognised", error)])) == ["unrecognised"]


def test_memory_readings_that_level_off_are_not_guessed_to_be_a_leak() -> None:
    steady = [f"epoch {n} memory in use: {min(1000 + 200 * n, 1400)} MiB" for n in range(9)]
    assert diagnose(of(*steady)) == ()


PROSE = {
    "the cuda context of the gpu was lost after an access to an address that is not its own": "illegal-memory-access",
    "the installed wheel of tensorflow was built without cuda": "cpu-only-build",
}
SILENT = {
    "worker 3 of the cluster can not be reached any more, its peers gave up": "worker-lost",
    "tensorflow trainer: the connection to worker 2 of the cluster is dead, its peers give up": "worker-lost",
    "cgroup limit reached, memory of the container used up": "host-oom",
}
_LOST = pytest.mark.xfail(strict=True, reason="only the pages' own prose, which is no longer compared, has these words")


@pytest.mark.parametrize(
    ("said", "name"), [*PROSE.items(), *(pytest.param(*pair, marks=_LOST) for pair in SILENT.items())]
)
def test_fault_described_in_plain_words_is_recognised(said: str, name: str) -> None:
    assert [diagnosis.name for diagnosis in diagnose(of(said))][:1] == [name]


ERROR = "ValueError: ('Unknown loss function', ':compute_loss')"


def advice(text: str) -> str:
    _, signatures = borrowed(load(), (Evidence("log", text, 1),), lambda _: frozenset())
    answers = lent_answers(load(), (Evidence("log", text, 1),))
    return "".join((*(signature.advice for signature in signatures), *(answer.text for answer in answers)))


def test_advice_is_borrowed_from_another_page_with_matching_wording() -> None:
    assert "Pass the {what}" in advice(ERROR)


def test_advice_is_borrowed_from_a_specific_page_before_generic_errors() -> None:
    assert "moments" not in advice("TypeError: build() got an unexpected keyword argument 'zoom'")
    captured, signatures = borrowed(
        load(), (Evidence("log", "AttributeError: 'Tensor' object has no attribute 'numpy'", 1),), lambda _: frozenset()
    )
    assert signatures or advice("AttributeError: 'Tensor' object has no attribute 'numpy'")
    assert set(captured) <= {"class", "name"}


def test_unknown_words_get_no_borrowed_advice() -> None:
    assert advice("ValueError: something of my own") == ""


def test_guess_without_advice_starts_with_borrowed_advice() -> None:
    (first, *_) = diagnose_log(ERROR.encode())
    assert first.confidence <= 0.5
    assert 'custom_objects={"compute_loss": compute_loss}' in first.remedies[0].text


def test_unrelated_error_borrows_advice_from_another_page() -> None:
    traceback = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    build()\n'
    (first, *_) = diagnose_log(
        f"{traceback}NotImplementedError: Learning rate schedule must override get_config".encode()
    )
    assert first.name == "unrelated"
    assert "Add get_config to your schedule" in first.remedies[0].text


def test_later_keras_message_lines_are_searched() -> None:
    announced = "OperatorNotAllowedInGraphError: Exception encountered when calling Informer.call()."
    (first, *_) = diagnose_log(f"{announced}\n\nIterating over a symbolic `tf.Tensor` is not allowed.".encode())
    assert "b, h, w = x.shape" in first.remedies[0].text
