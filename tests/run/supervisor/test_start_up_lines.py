"""Lines that TensorFlow prints at every start are shown once; those that may differ are always shown."""

from __future__ import annotations

import pytest

from oomph.run.supervisor.native_reports import StartUpLines

HEADS = (
    (b"%b0000 00:00:1795237218.916168     742 ", b"%b0000 00:00:1795237299.000001     801 "),
    (b"2023-05-02 10:11:12.123456: %b tensorflow/core/", b"2023-05-03 01:01:01.654321: %b tensorflow/core/"),
)
REPEATED = [
    (b"I", b"gpu_device.cc:2043] Created device GPU:0 with 512 MB memory\n"),
    (b"W", b"gpu_bfc_allocator.cc:47] Overriding orig_value setting\n"),
    (b"I", b"service.cc:153] XLA service 0x7f0bf803f1a0 initialized for platform CUDA. Devices:\n"),
    (
        b"E",
        b"cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when\n",
    ),
]
SHOWN = [
    (b"E", b"cuda_executor.cc:1827] Nvml call failed with 3(Not Supported)\n"),
    (b"F", b"parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_bogus_flag=1\n"),
]


def again(first: bytes, second: bytes) -> bool:
    seen: set[bytes] = set()
    assert not StartUpLines(seen).is_repeated(first)
    return StartUpLines(seen).is_repeated(second)


@pytest.mark.parametrize("heads", HEADS, ids=["2.21", "2.12"])
@pytest.mark.parametrize(("severity", "text"), REPEATED)
def test_start_up_lines_are_compared_ignoring_time_thread_and_addresses(heads, severity, text):
    first, second = (head % severity + text for head in heads)
    assert again(first, second)
    assert again(first, second.replace(b"0x7f0bf803f1a0", b"0x7fab00000010"))


@pytest.mark.parametrize("heads", HEADS, ids=["2.21", "2.12"])
@pytest.mark.parametrize(("severity", "text"), SHOWN)
def test_repeated_error_lines_are_shown_in_every_attempt(heads, severity, text):
    assert not again(*(head % severity + text for head in heads))


def test_start_up_line_with_a_changed_number_is_shown_again():
    first, second = (head % b"I" + REPEATED[0][1] for head in HEADS[0])
    assert not again(first, second.replace(b"512 MB", b"15 MB"))


def test_repeated_tensorflow_line_without_a_prefix_is_recognised():
    line = b"To enable the following instructions: AVX2 FMA, rebuild TensorFlow with the appropriate compiler flags.\n"
    assert again(line, line)
    assert not again(b"loading data\n", b"loading data\n")


def test_repeated_start_up_line_is_not_hidden_after_the_script_has_started():
    line, seen = HEADS[0][0] % b"I" + REPEATED[0][1], set()
    StartUpLines(seen).is_repeated(line)
    later = StartUpLines(seen)
    later.over = True
    assert not later.is_repeated(line)


def test_remembered_start_up_lines_are_limited_in_number_and_length():
    seen: set[bytes] = set()
    lines = StartUpLines(seen)
    for number in range(6000):
        lines.is_repeated(HEADS[0][0] % b"I" + b"port.cc:1] %d\n" % number)
    lines.is_repeated(HEADS[0][0] % b"I" + b"port.cc:1] " + b"x" * 10**6)
    assert len(seen) <= 5000
    assert max(map(len, seen)) < 100
