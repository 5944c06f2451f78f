"""The detector for leaks in TensorFlow's memory, on baselines as the training process writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from random import Random

import pytest

from oomph.monitor import baseline_series
from oomph.monitor.baseline_series import Series, series_of
from oomph.monitor.detectors import leaks
from oomph.monitor.detectors.leaks import kept_models, leak
from oomph.monitor.finding import Finding
from oomph.monitor.growth import Growth
from oomph.monitor.sample import Baseline, Sample
from oomph.monitor.window import Window

MIB = 1 << 20
LIMIT = {"allocator_limit_bytes": 1120.0 * MIB}


def window(baselines: Iterable[Baseline], training: dict[str, float]) -> Window:
    baselines = tuple(baselines)
    seen = Window()
    seen.append(Sample(baselines[-1].time, training=training, baselines=baselines))
    return seen


def epochs(held: Callable[[int], float], number: int = 40, process: int = 1, begin: int = 0) -> list[Baseline]:
    """Return the epoch ends of a fit, each after a minute and 100 steps."""
    return [
        Baseline(begin + 100 * epoch, (100 + held(epoch)) * MIB, epoch, 60.0 * (begin / 100 + epoch), process)
        for epoch in range(1, number + 1)
    ]


def find(baselines: Iterable[Baseline], **training: float) -> list[Finding]:
    return list(leak.find(window(baselines, LIMIT | training)))


def test_growth_per_epoch_is_reported_with_the_time_to_the_limit():
    [found] = find(epochs(lambda epoch: 12.0 * epoch, number=43))
    assert found.fault == "memory-leak"
    grows = "tensor memory is growing by 12 MiB an epoch "
    assert found.message == grows + "and will reach the limit in about 42 minutes (42 epochs)"
    assert found.severity == "warning"
    assert found.evidence["bytes_per_unit"] == 12 * MIB
    assert found.evidence["seconds_to_limit"] == 2520


def test_time_to_the_limit_is_computed_from_the_peak():
    [found] = find(epochs(lambda epoch: 12.0 * epoch), allocator_peak_bytes=1000.0 * MIB)
    assert "about 10 minutes (10 epochs)" in found.message


@pytest.mark.parametrize(
    ("last", "severity", "words"),
    [(100, "critical", "(5 epochs)"), (44, "notice", "(5 epochs), after this training ends")],
)
def test_leak_is_critical_only_if_it_reaches_the_limit_in_time(last, severity, words):
    place = {"epoch": 41.0, "epochs": float(last), "step_of_epoch": 0.0, "steps_per_epoch": 100.0}
    pace = {"step_seconds_total": 2400.0, "steps_total": 4000.0}
    [found] = find(epochs(lambda epoch: 12.0 * epoch), allocator_limit_bytes=640.0 * MIB, **place, **pace)
    assert (found.kind, found.severity) == ("", severity)
    assert found.message.endswith(words)


def test_possible_buffer_reaching_the_limit_in_this_training_run_is_a_notice():
    [found] = find(epochs(lambda epoch: 12.0 * epoch), epochs=100.0)
    assert (found.kind, found.severity) == ("filling", "notice")
    assert found.message.endswith("(45 epochs), unless it is only filling a buffer")
    assert find(epochs(lambda epoch: 12.0 * epoch), epochs=80.0) == []


def test_buffer_that_fills_up_over_half_of_the_training_run_is_not_a_leak():
    filling = epochs(lambda epoch: 6.0 * min(epoch, 50), number=100)
    assert not any(find(filling[:number], epochs=100.0) for number in range(1, 101))


def test_growth_over_most_of_the_training_run_is_a_leak():
    growing = epochs(lambda epoch: 3.0 * epoch, number=91)
    assert [found.kind for found in find(growing, epochs=100.0)] == [""]
    assert find(growing[:88], epochs=100.0) == []
    assert find(growing[:42]) == []
    assert [found.kind for found in find(growing[:43])] == [""], "without a plan, 40 epochs"


def test_leak_filling_most_of_the_memory_is_detected_within_seven_epochs():
    fast = epochs(lambda epoch: 130.0 * epoch, number=7)
    assert [found.kind for found in find(fast, epochs=100.0)] == [""]
    assert find(fast[:5], epochs=100.0) == []


def test_ring_buffer_of_a_few_copies_that_leaves_memory_free_is_not_a_leak():
    ring = epochs(lambda epoch: 100.0 * min(epoch, 6), number=20)
    assert not any(find(ring[:number], epochs=20.0) for number in range(1, 21))


def test_growth_that_continues_in_the_next_fit_is_a_leak():
    first, second = epochs(lambda epoch: 2.0 * epoch, 22), epochs(lambda epoch: 44 + 2.0 * epoch, 22, begin=2200)
    assert find(first) == []
    [found] = find([*first, *second])
    assert found.kind == ""
    assert "is growing by 2 MiB an epoch" in found.message.replace("2.0", "2")


def test_growth_without_a_known_limit_is_reported_only_with_its_rate():
    seen = window(epochs(lambda epoch: 12.0 * epoch, number=43), {})
    [found] = leak.find(seen)
    assert found.message == "tensor memory is growing by 12 MiB an epoch"


def test_first_two_epochs_are_ignored_as_warm_up(monkeypatch):
    leaking = epochs(lambda epoch: 100 * min(epoch, 3) + 3 * epoch + epoch % 2, number=46)
    assert find(leaking) != []
    monkeypatch.setattr(baseline_series, "_WARM_UP", 0)
    assert find(leaking) == []


def test_window_without_measurements_shows_no_leak():
    empty = Window()
    empty.append(Sample(0.0))
    assert list(leak.find(empty)) == []


def test_new_process_ignores_baselines_of_the_previous_one():
    before = epochs(lambda epoch: 300.0 + 12 * epoch, process=1)
    assert find([*before, *epochs(lambda epoch: 0.0, number=5, process=2)]) == []
    [found] = find([*before, *epochs(lambda epoch: 12.0 * epoch, process=2)])
    assert found.evidence["bytes_per_unit"] == 12 * MIB


def fits(held: Callable[[int], float], number: int, length: int) -> list[Baseline]:
    return [
        each for fit in range(number) for each in epochs(lambda _, fit=fit: held(fit), length, begin=100 * length * fit)
    ]


@pytest.mark.parametrize("length", [1, 5])
def test_models_kept_across_fits_are_detected(length):
    [found] = find(fits(lambda fit: 20.0 * fit, 20, length))
    assert "is growing by 20 MiB a fit" in found.message
    assert find(fits(lambda fit: 20.0 * (fit % 3), 20, length)) == []


def test_large_growth_from_short_fits_is_detected_sooner(monkeypatch):
    little, much = fits(lambda fit: 2.0 * fit, 60, 1), fits(lambda fit: 6.0 * (fit - fit % 3), 60, 1)
    assert [found.kind for found in find(much[:30])] == [""]
    monkeypatch.setattr(leaks, "kept_models", lambda *_: None)
    assert find(little[:30]) == []
    assert [found.kind for found in find(little)] == [""]
    assert [found.kind for found in find(much[:30])] == [""]
    monkeypatch.setattr(leaks, "_OF_FIT", 1.0)
    assert find(much[:30]) == []


def test_second_fit_is_judged_on_its_own():
    first = epochs(lambda epoch: 0.0, number=12)
    assert find([*first, *epochs(lambda epoch: 100.0, number=20, begin=1200)]) == []


def within(held: Callable[[float], float], minutes: int) -> list[Baseline]:
    """Return baselines within one epoch: one every ten seconds and 200 steps."""
    times = range(0, minutes * 60, 10)
    return [Baseline(20 * time, (100 + held(time / 60)) * MIB, 0, float(time), 1) for time in times]


def test_growth_in_one_long_epoch_is_reported_per_thousand_steps():
    [found] = find(within(lambda minute: 2 * minute, 200), epochs=1.0, allocator_limit_bytes=1000.0 * MIB)
    limit = "will reach the limit in about 4 hours"
    assert found.message == f"tensor memory is growing by 1.7 MiB every 1,000 steps and {limit}"


def test_growth_within_epochs_is_a_leak_only_after_three_hours(monkeypatch):
    filling = within(lambda minute: 2 * minute, 170)
    assert [found.kind for found in find(filling, epochs=1.0)] == ["filling"]
    assert find(filling[: len(filling) // 4], epochs=1.0) == []
    monkeypatch.setattr(leaks, "_STEPS_SECONDS", 0)
    assert [found.kind for found in find(filling, epochs=1.0)] == [""]


def test_small_growth_in_training_of_unknown_length_is_only_a_possible_buffer(monkeypatch):
    filling = within(lambda minute: 0.5 * minute, 200)
    assert [found.kind for found in find(filling, epochs=1.0)] == ["filling"]
    monkeypatch.setattr(leaks, "_LEAK_LEAST_OF_ROOM", 0)
    assert [found.kind for found in find(filling, epochs=1.0)] == [""]


def test_known_epoch_length_determines_whether_growth_within_it_is_a_leak():
    growing = within(lambda minute: 0.5 * minute, 100)
    assert [found.kind for found in find(growing, epochs=1.0, steps_per_epoch=20.0 * 6300)] == [""]
    assert find(growing, epochs=1.0, steps_per_epoch=20.0 * 9000) == []


def test_first_epoch_growth_taking_nearly_all_memory_is_a_leak(monkeypatch):
    fast = within(lambda minute: 100.0 * minute, 9)
    assert [found.kind for found in find(fast, epochs=5.0)] == [""]
    monkeypatch.setattr(leaks, "_OF_ROOM_IN_AN_EPOCH", 1.1)
    assert find(fast, epochs=5.0) == []


def test_memory_growth_within_short_epochs_is_not_a_leak(monkeypatch):
    filling = within(lambda minute: 2 * minute, 60)
    assert find(filling, epochs=5.0) == []
    monkeypatch.setattr(baseline_series, "_tell_enough", lambda *_: True)
    assert find(filling, epochs=5.0) != []


def test_growth_continuing_into_a_second_long_epoch_is_a_leak():
    growing = within(lambda minute: 2 * minute, 60)
    half = growing[len(growing) // 2]
    end = Baseline(half.step, half.bytes_in_use, 1, half.time, 1)
    assert find([*growing, end], epochs=2.0) != []
    assert find([*growing, end], epochs=5.0) == []


def fits_of(values: list[float], seconds: Callable[[int], float] = lambda _: 60.0) -> Series:
    """Return fits of one 100-step epoch each, which hold this many MiB."""
    times = list(accumulate(seconds(number) for number in range(len(values))))
    ends = [Baseline(100 * n + 100, value * MIB, 1, times[n], 1) for n, value in enumerate(values)]
    window = Window()
    window.append(Sample(times[-1], baselines=tuple(ends)))
    return next(series for series in series_of(window) if series.kind == "fits")


def kept(values: list[float], seconds: Callable[[int], float] = lambda _: 60.0) -> Growth | None:
    return kept_models(fits_of(values, seconds), MIB)


def test_models_kept_from_all_five_folds_are_detected():
    found = kept([100.0, 180, 260, 339, 420])
    assert found is not None
    assert round(found.rate / MIB) == 80
    assert kept([100.0, 180, 260, 339]) is None


def test_growing_models_with_ever_longer_fits_are_not_reported_as_kept():
    larger = [100.0, 200, 300, 400, 500]
    assert kept(larger, seconds=lambda number: 60.0 * (number + 1)) is None
    assert kept(larger) is not None


def test_models_of_varying_sizes_kept_during_a_search_are_detected():
    rng = Random(5)
    sizes = [rng.uniform(30, 300) for _ in range(14)]
    levels = [sum(sizes[:number]) * 0.8 + size for number, size in enumerate(sizes)]
    assert any(after < before for before, after in pairwise(levels)), "not an easy one"
    assert kept(levels) is not None


def test_model_enlarged_for_each_fit_is_not_reported_as_kept(monkeypatch):
    larger = [100.0 * 1.5**number for number in range(10)]
    assert kept(larger) is None
    monkeypatch.setattr(leaks, "_each_is_larger", lambda _: False)
    assert kept(larger) is not None


def test_search_that_frees_its_models_is_not_reported():
    rng = Random(5)
    for _ in range(300):
        sizes = [rng.uniform(50, 500) for _ in range(12)]
        assert not any(kept(sizes[:number]) for number in range(2, 13))


def test_slow_growth_caused_by_tensorflow_itself_is_not_reported():
    assert (
        kept([1.4 * number + number % 3 / 10 for number in range(1, 13)], seconds=lambda number: 60.0 + 9 * number)
        is None
    )
