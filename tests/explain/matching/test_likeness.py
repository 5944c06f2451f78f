"""An error whose wording is on no page is diagnosed by similarity, and never without a reason."""

from __future__ import annotations

import io
import time

import pytest

from oomph.explain.catalogue.catalogue import load
from oomph.explain.diagnose import diagnose
from oomph.explain.evidence.evidence import TEXT_LIMIT
from oomph.explain.matching.likeness import MOST, SUREST, likely, likely_of_check, likely_of_library
from oomph.explain.matching.vocabulary import AT_IMPORT, CLASSES, COMMON_WORDS, OPERATIONS, PATHS, WORDS
from oomph.explain.reading.log import read_log


def names(*lines: str) -> list[str]:
    return [found.name for found in diagnose(read_log(io.BytesIO("\n".join(lines).encode())))]


def test_vocabulary_refers_only_to_existing_pages() -> None:
    spoken_for = {name for weights in CLASSES.values() for name in weights}
    spoken_for |= {*WORDS, *COMMON_WORDS, *OPERATIONS, *PATHS, *AT_IMPORT}
    assert spoken_for <= {fault.name for fault in load()}


# Wordings from public reports; none of them is a signature.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("UnimplementedError:  Fused conv implementation does not support grouped ones.", "operation-not-registered"),
        ("InternalError (see above for traceback): Failed launching MaxPoolForwardNoMask", "kernel-launch-failure"),
        ("InvalidArgumentError:  Dimension -2147483648 must be >= 0", "shape-mismatch"),
        ("FailedPreconditionError: /tmp/model.ckpt.tempstate", "checkpoint-failure"),
        ("UnavailableError: the remote task went away", "worker-lost"),
    ],
)  # fmt: skip
def test_tensorflow_error_is_recognised_by_the_nouns_in_its_message(line: str, expected: str) -> None:
    assert names(line)[0] == expected


def test_assertion_failure_in_the_program_yields_no_guess() -> None:
    assert likely("InvalidArgumentError: assertion failed: [Condition x < y did not hold] shape") == ()


FRAMES = ("Traceback (most recent call last):", '  File "train.py", line 2, in <module>')
KERAS = '  File "/opt/lib/python3.11/site-packages/keras/src/ops/nn.py", line 9, in check'


def test_plain_error_is_recognised_only_when_keras_raised_it() -> None:
    error = "ValueError: the widths have rank 2 and the heights rank 3"
    assert names(*FRAMES, KERAS, error)[0] == "shape-mismatch"
    assert names(*FRAMES, error) == ["unrelated"]
    assert names(*FRAMES, KERAS, "ValueError: mauve") == ["unrelated"]


def test_unknown_keras_error_suggests_similar_pages() -> None:
    error = "ValueError: a variable of a replica belongs to the scope of its strategy"
    assert names(*FRAMES, KERAS, error)[:2] == ["unrelated", "strategy-not-supported"]
    assert names(*FRAMES, error) == ["unrelated"]


def test_failed_gpu_check_is_the_cause_of_an_abort() -> None:
    line = "F tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.cc:136] Check failed: this->H2D_stream_->ok()"
    found = diagnose(read_log(io.BytesIO(line.encode())))
    assert (found[0].name, found[0].role) == ("kernel-launch-failure", "cause")
    assert [d.role for d in found if d.name == "abort"] == ["consequence"]
    assert likely_of_check("F tensorflow/core/kernels/check.cc:12] Check failed: x == y (1 vs. 2)") == ()


def test_likeness_confidence_is_limited_to_a_suspicion() -> None:
    for text in ("InternalError: CUDA cuDNN cuBLAS NCCL XLA", "InvalidArgumentError: shape dtype label"):
        found = likely(text)
        assert 1 <= len(found) <= MOST
        assert all(entry.confidence <= SUREST for entry in found)


@pytest.mark.parametrize("filler", ["a", " ", "[[", "{{node ", "/", "shape ", "(of type "], ids=repr)
def test_long_message_takes_linear_time(filler: str) -> None:
    text = f"InvalidArgumentError: {filler * TEXT_LIMIT}"[: 2 * TEXT_LIMIT]
    started = time.process_time()
    likely(text)
    likely_of_library(text)
    assert time.process_time() - started < 1.0
