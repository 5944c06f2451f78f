"""The order of diagnoses: abort messages first, certain ones before guesses. The last error is always shown."""

from __future__ import annotations

from itertools import pairwise

import pytest

from oomph.explain.diagnose import diagnose_log
from oomph.explain.matching.hits import calibrated
from oomph.explain.matching.named_fault import Diagnosis
from oomph.explain.render import as_text

ABORTED = "Aborted (core dumped)\n"
THROWN = "terminate called after throwing an instance of '{}'\n  what():  {}\n"
FLOAT_CHECK = (
    "F tensorflow/core/framework/tensor.cc:681] Check failed: dtype() == expected_dtype (1 vs. 2) double, not float\n"
)
RANK_CHECK = (
    "F tensorflow/core/framework/tensor_shape.cc:44] Check failed: NDIMS == dims() (1 vs. 2) dimensions of a tensor\n"
)
ENFORCED = (
    "[enforce fail at third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 6232 vs 4"
)


def of(text: str) -> tuple[Diagnosis, ...]:
    return diagnose_log(text.encode())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (FLOAT_CHECK, "dtype-mismatch"),
        (RANK_CHECK, "shape-mismatch"),
        (THROWN.format("gloo::EnforceNotMet", ENFORCED), "worker-lost"),
        (THROWN.format("std::runtime_error", "NCCL error: unhandled system error"), "nccl-failure"),
        (
            THROWN.format("dmlc::Error", "[10:00:00] x.cc:12: Check failed: e == cudaSuccess: CUDA: out of memory"),
            "device-oom",
        ),
    ],
)
@pytest.mark.parametrize("end", ["", ABORTED], ids=["cut off", "whole"])
def test_abort_message_determines_the_cause(text: str, name: str, end: str) -> None:
    first, second, *_ = of(text + end)
    assert (first.name, first.role) == (name, "cause")
    assert "abort" in [second.name, *(other.name for other in _)]


def test_rank_abort_precedes_the_loss_of_its_peers() -> None:
    lost = "[rank1]: UNAVAILABLE: Collective ops is aborted by: recvmsg:Connection reset by peer\n"
    first, *others = of(f"[rank0]: F tensorflow/core/x.cc:1] Check failed: it holds\n{lost}[rank0]: {ABORTED}")
    assert first.name == "abort"
    assert "worker-lost" in [diagnosis.name for diagnosis in others]


def test_certain_diagnosis_precedes_every_guess() -> None:
    waits = "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure\n"
    text = f"{waits}Epoch 2/9\nValueError: x\nInvalidArgumentError: something that no page knows\n"
    surest = [diagnosis.confidence for diagnosis in of(text)]
    assert all(later < 0.9 for place, sure in enumerate(surest) if sure <= 0.5 for later in surest[place:])


def test_last_error_is_shown_even_if_not_decisive() -> None:
    last = "RuntimeError: " + "the trainer could not go on " * 30
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in b\n'
    text = f"CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access\n{head}{last}\n"
    found = of(text)
    assert found[0].name == "illegal-memory-access"
    assert any(fact.text == last.rstrip() for diagnosis in found for fact in diagnosis.evidence)
    assert last[:100] in " ".join(as_text(found, "train.log").split())


def test_stated_confidence_never_exceeds_the_measured_one() -> None:
    claims = [place / 1000 for place in range(1001)]
    stated = [calibrated(claim) for claim in claims]
    assert stated[:901] == claims[:901]
    assert all(less < more for less, more in pairwise(stated[:991]))
    assert stated[990:] == [pytest.approx(0.94)] * 11
    several = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch cgroup.\nReason: OOMKilled\n"
    assert of(several)[0].confidence == 0.94
