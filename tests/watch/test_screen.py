"""The live view and `--once`: whole screens as golden files, and rules that hold at every size."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import views
from hypothesis import given, settings
from hypothesis import strategies as some
from rich.cells import cell_len

from oomph.monitor.metrics import Scope, of_scope
from oomph.run.directory.run_directory import RunRecord
from oomph.watch.exposition import exposition
from oomph.watch.job import Run, job_of
from oomph.watch.keys import ViewChoice, keys_in, pressed
from oomph.watch.layout import Wish, allot, cut, heights_of
from oomph.watch.once import as_document
from oomph.watch.screen import LEAST_HEIGHT, LEAST_WIDTH, lines_of
from oomph.watch.wording import time_of_day

PLAIN = ViewChoice()


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    views.in_utc()


@pytest.mark.parametrize("name", views.VIEWS)
def test_the_screen_matches_the_golden_file(name):
    """Review the diff; `make golden` regenerates the files."""
    assert views.screens(views.VIEWS[name]) == (views.GOLDEN / f"{name}.txt").read_text()


def test_the_guide_shows_the_screen_as_it_is():
    guide = Path(__file__).parents[2] / "docs/how-to/watch-a-training.md"
    assert plain(views.VIEWS["incidents"]) in "\n".join(map(str.rstrip, guide.read_text().split("\n")))


@pytest.mark.parametrize("name", views.VIEWS)
@settings(max_examples=25)
@given(width=some.integers(1, 200), height=some.integers(1, 60))
def test_the_screen_fits_every_terminal(name, width, height):
    lines = lines_of(views.VIEWS[name], ViewChoice(), width, height)
    assert len(lines) <= height
    assert all(cell_len(line.plain) <= width for line in lines)
    if width >= LEAST_WIDTH and height >= LEAST_HEIGHT:
        assert len(lines) == height
        assert lines[-1].plain.startswith("q quit")


def plain(view: views.View, choice: ViewChoice = PLAIN, width: int = 80, height: int = 24) -> str:
    return "\n".join(line.plain.rstrip() for line in lines_of(view, choice, width, height))


def test_small_terminal_shows_the_required_size():
    assert "40×10 needed" in plain(views.VIEWS["incidents"], width=39)
    assert "40×10 needed" in plain(views.VIEWS["incidents"], height=9)


def test_latest_incident_is_shown_with_any_number_of_gpus():
    assert "memory-leak" in plain(views.VIEWS["sixteen-gpus"], width=60, height=12)


NUMBERS = some.one_of(
    some.floats(-(2.0**62), 2.0**62),
    some.sampled_from([0.0, -1.0, 1e-300, 2.0**62, math.nan, math.inf, -math.inf]),
    some.just(views.NOW),
)


@settings(max_examples=60, deadline=None)
@given(data=some.data(), width=some.integers(40, 210), height=some.integers(10, 60))
def test_any_numbers_in_the_samples_can_be_shown(data, width, height):
    """A run directory may come from elsewhere, and a clock may be turned back."""

    def values(scope: Scope) -> dict[str, float]:
        keys = some.sampled_from([metric.key for metric in of_scope(scope)])
        return data.draw(some.dictionaries(keys, NUMBERS))

    samples = [
        views.Sample(
            data.draw(NUMBERS.filter(math.isfinite)),
            (views.gpu(0, values=values("gpu")),),
            values("host"),
            values("process"),
            values("training"),
        )
        for _ in range(data.draw(some.integers(1, 5)))
    ]
    job = job_of(Run("run", RunRecord(("train.py",), "python", "", ""), True, samples=tuple(samples)))
    view = views.view_of(views.NOW, samples, [job, replace(job, run="other")])
    assert len(lines_of(view, PLAIN, width, height)) == height
    assert views.as_text(view, width)
    assert json.dumps(as_document(view), allow_nan=False)
    assert exposition(view)


def test_control_characters_in_names_are_escaped():
    evil = "\x1b[2J\x9b31m\nq"
    gpus = views.gpu(0, name=evil, processes=(views.GpuProcess(1, 1, evil),)), views.gpu(1, problem=evil)
    view = views.view_of(
        views.NOW,
        [views.Sample(views.NOW, gpus)],
        [replace(views.JOB, command=evil, run=evil)],
        [replace(views.LEAK, message=evil, remedy=evil, subject=evil)],
        {"nvml": evil},
    )
    for shown in (plain(view, width=120), views.as_text(view, 80)):
        assert not set(shown) & {"\x1b", "\x9b"}
        assert "\\x1b[2J" in shown


def test_an_old_sample_is_shown_with_its_age():
    old = replace(views.VIEWS["one-gpu-with-a-run"], time=views.NOW + 65)
    assert "last sample 1 min 5 s ago" in plain(old)
    assert "last sample 1 min 5 s ago" in views.as_text(old, 80)


def test_keys_quit_and_pause_the_view():
    assert pressed(ViewChoice(), "q").quits
    assert pressed(pressed(ViewChoice(), "p"), "P") == ViewChoice()
    assert pressed(ViewChoice(), "\x1b") == ViewChoice()
    assert "paused" in plain(views.VIEWS["mig"], pressed(ViewChoice(), "p"))


def test_arrow_keys_and_digits_select_a_run():
    jobs = views.VIEWS["three-runs"].jobs
    assert keys_in("a\x1b[B2\x1bOA\x1b[1;5Cq\x1b") == ["a", "\x1b[B", "2", "\x1bOA", "\x1b[1;5C", "q", "\x1b"]
    choice, places = PLAIN, []
    for key in ("2", "\x1b[B", "\t", "\x1b[A", "4", "0", "1"):
        choice = pressed(choice, key, jobs)
        places.append(choice.place(jobs))
    assert places == [1, 2, 0, 2, 2, 2, 0]
    assert pressed(PLAIN, "2") == pressed(PLAIN, "j") == PLAIN, "without runs"


def test_the_chosen_run_stays_chosen_while_others_come_and_go():
    jobs = views.VIEWS["three-runs"].jobs
    choice = pressed(PLAIN, "2", jobs)
    assert choice.place(jobs[1:]) == 0
    assert choice.place(jobs[:1]) == 0, "it is gone"


def test_the_chosen_run_is_visible_in_a_list_that_is_cut():
    jobs = [replace(views.JOB, run=str(number), command=f"number{number}.py") for number in range(12)]
    view = replace(views.VIEWS["sixteen-gpus"], jobs=tuple(jobs))
    shown = plain(view, replace(PLAIN, run="11"))
    assert "▸12 number11" in shown
    assert "… 10 more" in shown


def test_a_single_run_has_no_number_and_tells_its_position_once():
    shown = plain(views.VIEWS["incidents"])
    assert "\ntrain.py --epochs 10  running  attempt 2  warning" in shown
    assert shown.count("step 120/469") == 1


def test_loss_is_the_end_of_its_curve():
    job = replace(views.JOB, loss=9.0)
    for height in (24, 12):
        shown = plain(views.view_of(views.NOW, views.samples(views.gpu(0, 1.0)), [job]), height=height)
        assert re.search(r"loss +0\.2874\b", shown), "and not Keras's mean over the epoch"


def test_figures_of_a_gpu_have_the_colour_of_their_level_also_in_its_title():
    hot = (views.gpu(index, values={**views.gpu(index).values, "temperature_celsius": 89.0}) for index in range(8))
    lines = lines_of(views.view_of(views.NOW, views.samples(*hot), [views.JOB]), PLAIN, 120, 40)
    (title,) = (line for line in lines if line.plain.startswith("GPU 2 "))
    assert "yellow" in {span.style for span in title.spans if title.plain[span.start : span.end] == "89 °C"}


@pytest.mark.parametrize("name", ["eight-gpus", "incidents", "three-runs", "lost-gpu"])
def test_no_part_is_hidden_on_a_screen_of_the_usual_size(name):
    view = views.VIEWS[name]
    shown = plain(view)
    for part in ("samples/s", "loss", "input wait", "TF pool", "63.2", "71.9 GiB", "RSS", "20.0/64 GiB", "64.0/80 GiB"):
        assert part in shown
    assert all(job.command[:10] in shown for job in view.jobs)
    assert all(f" {each.fault} " in shown for each in view.alerts)
    assert str(view.processes[0].pid) in shown


def test_pressing_s_cycles_through_the_sort_orders_of_the_gpus():
    view = views.view_of(views.NOW, [views.Sample(views.NOW, (views.gpu(0, 0.1), views.gpu(1, 0.9)))], [])
    choice, first = ViewChoice(), []
    for _ in range(5):
        first.append((choice.order, choice.sorted(view.gpus)[0].index))
        choice = pressed(choice, "s")
    assert first == [("index", 0), ("memory", 1), ("use", 1), ("temperature", 1), ("index", 0)]


def test_screen_rows_are_allotted_to_sections_by_rank():
    wishes = [Wish(5, 2, 1), Wish(9, 3, 0), Wish(4, 0, 2)]
    assert allot(100, wishes) == [5, 9, 4]
    assert allot(12, wishes) == [3, 9, 0]
    assert allot(5, wishes) == [2, 3, 0]
    assert allot(2, wishes) == [0, 2, 0]
    assert (cut(5, 5), cut(5, 3), cut(5, 0)) == ((5, 0), (2, 3), (0, 5))


def test_curves_grow_with_the_screen_those_of_the_run_first():
    assert heights_of(0, [0, 6, 2, 4]) == [1, 1, 1, 1]
    assert heights_of(5, [0, 6, 2, 4]) == [1, 1, 1, 1], "none is higher than those of the run"
    assert heights_of(13, [0, 6, 2, 4]) == [1, 2, 2, 2]
    assert heights_of(18, [0, 6, 2, 4]) == [1, 3, 2, 2]
    assert heights_of(7, [0, 0, 2, 1]) == [1, 1, 3, 3], "without a run"
    assert heights_of(1000, [6]) == [6]


def test_time_outside_the_calendar_range_is_shown_as_unknown():
    assert time_of_day(0.0) == "00:00:00"
    assert [time_of_day(seconds) for seconds in (1e300, float("nan"), float("inf"))] == 3 * ["??:??:??"]
