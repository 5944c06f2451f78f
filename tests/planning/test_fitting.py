"""The verdict on whether a batch fits, its notes, and the bfloat16 warning."""

from __future__ import annotations

import pytest

from oomph.planning.gpu_costs import CONTEXT, limit_of, reserve
from oomph.planning.gpu_list import find_gpu
from oomph.planning.plan import Device, Estimate, Fitting, Interval
from oomph.planning.verdict import FittingVerdict, notes, suits_bfloat16, warnings, why_open

GIB = 1 << 30
CARD = Device("a card", 8 * GIB, 6 * GIB)


@pytest.mark.parametrize(
    ("peak", "is_xla", "says"),
    [
        (Interval(1, 2, 3), False, Fitting.YES),
        (Interval(4, 5, 7), False, Fitting.UNKNOWN),
        (Interval(4, 7, 8), False, Fitting.UNKNOWN),
        (Interval(6, 7, 8), False, Fitting.NO),
        (Interval(0.5, 0.7, 0.75), True, Fitting.YES),
        (Interval(0.5, 0.7, 0.76), True, Fitting.UNKNOWN),
        (Interval(1, 2, 3), True, Fitting.UNKNOWN),
        (Interval(7, 8, 9), True, Fitting.UNKNOWN),
        (Interval(9, 10, 12), True, Fitting.NO),
    ],
)
def test_verdict_follows_the_interval_and_is_stricter_under_xla(peak, is_xla, says) -> None:
    scaled = Interval(*(round(size * GIB) for size in (peak.low, peak.expected, peak.high)))
    assert FittingVerdict(CARD, is_xla, held=0).fits(scaled) is says


def test_missing_device_gives_an_unknown_verdict_without_notes() -> None:
    assert FittingVerdict(None, False, 0).fits(Interval(0, 0, 0)) is Fitting.UNKNOWN
    assert notes(FittingVerdict(None, False, 0), ()) == ()


def test_verdict_under_xla_is_unknown_if_there_is_doubt_or_too_little_room() -> None:
    small = Interval(GIB // 200, GIB // 100, GIB // 50)
    assert FittingVerdict(CARD, True, 0).fits(small) is Fitting.YES
    assert FittingVerdict(CARD, True, 0, doubt="a size is unknown").fits(small) is Fitting.UNKNOWN
    assert FittingVerdict(CARD, True, held=GIB).fits(small) is Fitting.UNKNOWN


def test_positive_verdict_without_compiling_states_the_margin_for_xla() -> None:
    verdict = FittingVerdict(CARD, True, 0)
    peaks = {32: Interval(GIB // 8, GIB // 5, GIB // 4), 512: Interval(2 * GIB, 3 * GIB, 4 * GIB)}
    said = notes(verdict, (), [Estimate(size, peak, verdict.fits(peak)) for size, peak in peaks.items()])
    (room,) = [note for note in said if "unless XLA" in note]
    assert room.startswith("A batch of 32 fits unless XLA uses more than 24 times the upper bound")
    assert not any("unless XLA" in note for note in notes(FittingVerdict(CARD, False, 0), (), []))


def test_memory_already_in_use_alone_may_rule_out_an_xla_fit() -> None:
    assert FittingVerdict(CARD, True, held=7 * GIB).fits(Interval(7 * GIB, 7 * GIB, 8 * GIB)) is Fitting.NO


def test_reserve_is_deducted_from_a_gpu_but_not_from_a_given_amount() -> None:
    card = limit_of({"name": "RTX", "memory": 24 * GIB, "capability": "8.9", "is_card": True})
    amount = limit_of({"name": "24 GiB", "memory": 24 * GIB, "capability": "", "is_card": False})
    assert card is not None
    assert amount is not None
    assert card.usable == 24 * GIB - CONTEXT.high - reserve(24 * GIB, "8.9")
    assert amount.usable == 24 * GIB
    assert limit_of(None) is None


@pytest.mark.parametrize(
    ("capability", "mib"),
    [("5.2", 500), ("7.5", 1050), ("8.6", 1536), ("8.9", 1800), ("9.0", 1800), ("12.0", 1800), ("", 1800)],
)
def test_reserve_matches_the_measured_reserve(capability: str, mib: int) -> None:
    assert reserve(8 * GIB, capability) == mib << 20


@pytest.mark.parametrize(
    ("device", "begin"),
    [
        (None, "Keras compiles with XLA if it sees a GPU, and"),
        (CARD, "Keras compiles with XLA if it sees a GPU, and"),
        (Device("the CPU's pool", GIB, GIB, is_card=False, is_gpu=False), "this step is compiled with XLA, and"),
    ],
)
def test_open_xla_verdict_gives_its_reason_and_a_remedy(device, begin) -> None:
    said = why_open(FittingVerdict(device, True, 0, doubt="a loop is guessed"))
    assert said.startswith(begin)
    assert "set jit_compile=False in compile(), plan again, and train with that" in said


def test_verdict_without_xla_is_left_open_only_because_of_a_doubt() -> None:
    assert why_open(FittingVerdict(CARD, False, 0, doubt="a loop is guessed")) == "a loop is guessed"
    assert why_open(FittingVerdict(CARD, False, 0)) == ""


def test_notes_mention_xla_and_count_unknown_sizes() -> None:
    said = notes(FittingVerdict(CARD, True, 0), [f"loop {number} is assumed" for number in range(5)])
    assert "jit_compile=False" in said[0]
    assert said[-1] == "2 more sizes are unknown or assumed."


def test_doubt_prevents_a_positive_verdict() -> None:
    device = Device("a GPU", 1 << 34, 1 << 34)
    small = Interval(1 << 20, 1 << 21, 1 << 22)
    assert FittingVerdict(device, is_xla=False, held=0).fits(small) is Fitting.YES
    doubtful = FittingVerdict(device, is_xla=False, held=0, doubt="a loop is assumed to run 32 iterations")
    assert doubtful.fits(small) is Fitting.UNKNOWN
    assert not doubtful.can_say_yes


def test_compiled_step_may_get_a_definite_positive_verdict() -> None:
    compiled = FittingVerdict(CARD, True, 0, compiled=("XLA compiled this step.",))
    assert compiled.can_say_yes
    assert compiled.fits(Interval(1 * GIB, 2 * GIB, 3 * GIB)) is Fitting.YES
    assert compiled.fits(Interval(4 * GIB, 5 * GIB, 7 * GIB)) is Fitting.UNKNOWN
    assert compiled.fits(Interval(6 * GIB, 7 * GIB, 8 * GIB)) is Fitting.NO
    said = notes(compiled, ())
    assert said[0] == "XLA compiled this step."
    assert not any("jit_compile=False" in note for note in said)
    assert why_open(compiled) == ""


def test_verdict_on_a_compiled_step_is_open_only_because_of_a_doubt() -> None:
    doubtful = FittingVerdict(CARD, True, 0, doubt="the data leave it open", compiled=("XLA compiled this step.",))
    assert not doubtful.can_say_yes
    assert doubtful.fits(Interval(1 * GIB, 2 * GIB, 3 * GIB)) is Fitting.UNKNOWN
    assert why_open(doubtful) == "the data leave it open"


def test_reason_for_not_compiling_is_stated_once() -> None:
    verdict = FittingVerdict(CARD, True, 0, not_compiled="its compiler took too long")
    assert why_open(verdict) == (
        "Keras compiles with XLA if it sees a GPU, and XLA chooses the buffers itself; its compiler took too long; to "
        "find out without it, set jit_compile=False in compile(), plan again, and train with that"
    )
    assert not any("took too long" in note for note in notes(verdict, ()))


def test_failed_step_explains_the_open_verdict_instead_of_xla() -> None:
    failed = FittingVerdict(CARD, True, 0, doubt="a step failed", failed="a step failed")
    assert why_open(failed) == "a step failed"


def device(name: str) -> Device:
    gpu = find_gpu(name)
    return Device(gpu.name, gpu.memory_bytes, gpu.memory_bytes, capability=gpu.capability)


@pytest.mark.parametrize("name", ["T4", "V100 16GB", "P100 16GB", "GTX 1080 Ti"])
def test_bfloat16_on_gpus_before_ampere_gets_a_warning(name) -> None:
    card = device(name)
    (said,) = warnings(card, ("float32", "mixed_bfloat16"))
    assert said.startswith(f"{card.name} (compute capability {card.capability}) has no fast bfloat16 arithmetic")
    assert said.endswith("mixed_bfloat16 saves memory but is slow; use mixed_float16.")
    assert not suits_bfloat16(card)


@pytest.mark.parametrize("policies", [("float32",), ("mixed_float16",), ()])
def test_other_policies_get_no_warning(policies) -> None:
    assert warnings(device("T4"), policies) == ()


@pytest.mark.parametrize(
    "known", [None, Device("a GPU with 24 GiB", 1, 1, is_card=False), device("A100 40GB"), device("RTX 4090")]
)
def test_ampere_and_unknown_gpus_get_no_warning(known) -> None:
    assert warnings(known, ("mixed_bfloat16",)) == ()
    assert suits_bfloat16(known)
