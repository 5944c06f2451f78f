"""Models that are kept from fit to fit: of folds, which are alike, and of a search, which are not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from random import Random

from oomph.monitor.baseline_series import Series, series_of
from oomph.monitor.detectors import leaks
from oomph.monitor.detectors.leaks import kept_models
from oomph.monitor.growth import Growth
from oomph.monitor.sample import Baseline, Sample
from oomph.monitor.window import Window

MIB = 1 << 20


def fits(values: list[float], seconds: Callable[[int], float] = lambda _: 60.0) -> Series:
    """The fits of one epoch of 100 steps that hold so many MiB each."""
    times = list(accumulate(seconds(number) for number in range(len(values))))
    ends = [Baseline(100 * n + 100, value * MIB, 1, times[n], 1) for n, value in enumerate(values)]
    window = Window()
    window.append(Sample(times[-1], baselines=tuple(ends)))
    return next(series for series in series_of(window) if series.kind == "fits")


def kept(values: list[float], seconds: Callable[[int], float] = lambda _: 60.0) -> Growth | None:
    return kept_models(fits(values, seconds), MIB)


def test_models_kept_from_five_folds_are_found():
    found = kept([100.0, 180, 260, 339, 420])
    assert found is not None
    assert round(found.rate / MIB) == 80
    assert kept([100.0, 180, 260, 339]) is None


def test_growing_models_with_ever_longer_fits_are_not_reported_as_kept():
    larger = [100.0, 200, 300, 400, 500]
    assert kept(larger, seconds=lambda number: 60.0 * (number + 1)) is None
    assert kept(larger) is not None


def test_models_of_varying_sizes_kept_during_a_search_are_found():
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
