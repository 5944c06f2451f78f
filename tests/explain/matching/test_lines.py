"""Kinds of log lines: training output, failures, and final lines."""

from __future__ import annotations

import io

import pytest

from oomph.explain.diagnose import diagnose, words
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.lines import LINES, LastLines, gets_by, goes_on, tells_of_failure
from oomph.explain.reading.log import read_log


@pytest.mark.parametrize("line", ["Epoch 3/10", "epoch: 12 loss: 0.3", "step 100 loss 0.31", "12s 3ms/step"])
def test_progress_line_is_recognised(line: str) -> None:
    assert goes_on(line)


@pytest.mark.parametrize(
    "line", ['callback filepath: "ckpt/{epoch:02d}-{val_loss:.2f}"', "an epoch later", "loss of data"]
)
def test_template_or_sentence_is_not_training_progress(line: str) -> None:
    assert not goes_on(line)


START = "2024-08-11 20:04:18.331017: "
ALARMING = [
    f"{START}E tensorflow/core/foo/bar.cc:12] the frobnicator went wrong",
    "F0000 00:00:1795273984.028772   23189 bar.cc:52] no frobnicator",
    "job 7 died on node 3",
    "the trainer crashed",
    "#3  0x00007f863dd73f09 in ncclGroupEnd () from /usr/lib/libnccl.so.2",
    "0  /usr/local/ucx/lib/libucs.so.0(ucs_handle_error+0x2dc) [0x7f5a6c0b6bdc]",
    '  File "train.py", line 3, in main',
]
CALM = [
    f"{START}I tensorflow/core/util/port.cc:113] round-off errors from different computation orders",
    f"{START}W tensorflow/core/foo.cc:1] could not open it, which is fine",
    f"{START}E external/xla/cuda_fft.cc:485] Unable to register cuFFT factory: Attempting to register factory",
    "E0000 00:00:1795237449.986561    6493 cuda_executor.cc:1827] Nvml call failed with 3(Not Supported). Assuming",
    "WARNING: the old name will be invalid soon",
    "finished with 0 errors",
    "Epoch 3/5 loss: 0.1",
]


@pytest.mark.parametrize("line", ALARMING)
def test_failing_line_is_recognised_as_a_failure(line: str) -> None:
    assert tells_of_failure(line)


@pytest.mark.parametrize("line", CALM)
def test_harmless_line_is_not_mistaken_for_a_failure(line: str) -> None:
    assert not tells_of_failure(line)


def of(*lines: str) -> list[str]:
    log = io.BytesIO("\n".join(lines).encode())
    return [diagnosis.name for diagnosis in diagnose(read_log(log, words=words()))]


PEER = "E0000 00:00:1795273984.028772   23189 bar.cc:52] the grpc channel to peer task worker 2 is dead: unavailable"


def test_unknown_final_error_gets_the_most_similar_page() -> None:
    first, *others = diagnose([Evidence("log", PEER, 1)])
    assert first.name == "worker-lost"
    assert first.confidence <= 0.5
    assert first.evidence == (Evidence("log", PEER, 1),)
    assert 1 <= len(others) <= 2
    assert all(other.confidence < first.confidence for other in others)


def test_error_before_a_keyboard_interrupt_is_not_diagnosed() -> None:
    frames = ("Traceback (most recent call last):", '  File "/lib/keras/src/trainer.py", line 377, in fit')
    assert of(PEER, *frames, "KeyboardInterrupt") == []


def test_error_line_followed_by_more_training_is_not_diagnosed() -> None:
    assert of(PEER, "Epoch 2/5", " 10/10 - loss: 0.5") == []


def test_error_followed_by_tensorflow_startup_is_not_diagnosed() -> None:
    said = "the launch of a kernel on the GPU failed, the stream is gone"
    error = f"{START}E tensorflow/stream_executor/cuda/cuda_new.cc:1] {said}"
    assert of(error) != []
    assert of(error, f"{START}I tensorflow/core/common_runtime/gpu/gpu_device.cc:1] Created device GPU:0") == []


def test_text_unrelated_to_training_is_not_diagnosed() -> None:
    assert of("nginx: worker process 7 died: connection to its peer lost", "nginx: exiting") == []


def test_last_line_of_a_long_log_is_diagnosed() -> None:
    noise = b"nothing of interest here\n" * 40_000
    log = io.BytesIO(noise + b"\n".join(b"%d of them" % n for n in range(5)) + b"\n" + PEER.encode())
    first, *_ = diagnose(read_log(log, words=words()))
    assert (first.name, first.evidence[0].line) == ("worker-lost", 40_006)


def test_progress_bar_updates_are_kept_as_one_line() -> None:
    last = LastLines()
    last.see(Evidence("log", "the GPU failed", 1), 0)
    for number in range(9 * LINES):
        last.see(Evidence("log", f"{number}/400 [====>.....] loss: 0.{number}", 2), number)
    last.see(Evidence("log", "the end", 3), 10 * LINES)
    assert [fact.text for fact in last.alarming(-1)] == [
        "the GPU failed",
        "359/400 [====>.....] loss: 0.359",
        "the end",
    ]


def test_refused_iterator_save_is_not_a_failure_unless_the_script_raises_it() -> None:
    """A checkpoint simply omits the position of such data."""
    start = "W0000 00:00:1795941674.854801   23746 "
    refused = "FAILED_PRECONDITION: RandomUniform is stateful."
    assert gets_by(f"{start}op_kernel.cc:1858] OP_REQUIRES failed at iterator_ops.cc:1120 : {refused}")
    assert gets_by(f"{start}local_rendezvous.cc:412] Local rendezvous is aborting with status: {refused}")
    other = "FAILED_PRECONDITION: Could not find variable dense/kernel."
    assert not gets_by(f"{start}local_rendezvous.cc:412] Local rendezvous is aborting with status: {other}")
    assert not gets_by("tensorflow.python.framework.errors_impl.FailedPreconditionError: RandomUniform is stateful.")


def test_log_with_a_refused_iterator_save_shows_no_fault() -> None:
    start, refused = "W0000 00:00:1795941674.854801   23746 ", "FAILED_PRECONDITION: RandomUniform is stateful."
    lines = [
        "Epoch 1/3",
        f"{start}op_kernel.cc:1858] OP_REQUIRES failed at iterator_ops.cc:1120 : {refused}",
        f"{start}local_rendezvous.cc:412] Local rendezvous is aborting with status: {refused}",
    ]
    log = "\n".join(lines) + "\n"
    assert not diagnose(list(read_log(io.BytesIO(log.encode()))))
    assert diagnose(list(read_log(io.BytesIO(log.replace("RandomUniform is stateful", "No variable w").encode()))))
