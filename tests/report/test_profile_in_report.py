"""The report tells what the recorded steps spent their time on, in every format. A trace is only data."""

from __future__ import annotations

import json
import os

import pytest
import traces
from recorded_runs import survived, write
from test_report_page import HOSTILE, Outline

from oomph.journal.events import ProfileFailed, ProfileSaved, ProfileStarted
from oomph.report import profiles
from oomph.report.formats import as_document, as_markdown
from oomph.report.html import as_page
from oomph.report.recording import read_recording

TRACE = "profile/plugins/profile/2026_11_30_08_01_40/vm.xplane.pb"


def profiled(path, content=None, trace=TRACE, **fields):
    """A run with a trace."""
    run = survived(path)
    if content is not None:
        (run / trace).parent.mkdir(parents=True)
        (run / trace).write_bytes(content)
    saved = ProfileSaved(**{"first": 11, "last": 12, "trace": trace, **fields})
    write(run, 1, "worker5", [(10, ProfileStarted(first=11)), (11, saved)])
    return run


@pytest.fixture(name="recording")
def _recording(tmp_path):
    return read_recording(profiled(tmp_path / "run", traces.of_gpu()))


def test_the_page_has_the_figures_the_operations_and_the_command_that_opens_the_trace(recording):
    page = Outline(as_page(recording))
    assert "profile" in page.ids
    for text in ("Steps 11 to 12", "100 µs (200 µs in all", "GPU 0: 25 % of the time", "3 kernels, 2 a step",
                 "3.91 KiB (2 times, 15 µs)", "5 µs a step, 5 % of the time", traces.MATMUL,
                 f"xprof --logdir {recording.path}/profile"):  # fmt: skip
        assert text in page.text
    assert "XLA" not in page.text.split("Profile")[1].split("Incidents")[0]


def test_markdown_and_json_have_the_same(recording):
    text = as_markdown(recording)
    assert "## Profile of steps 11 to 12\n" in text
    assert "| 75 % | 120 µs | 2 | model/dense/MatMul:MatMul |" in text
    (profile,) = json.loads(json.dumps(as_document(recording)))["profiles"]
    assert (profile["first_step"], profile["last_step"], profile["trace"]) == (11, 12, TRACE)
    assert profile["figures"]["idle"] == {"GPU 0": pytest.approx(0.25)}
    assert profile["figures"]["operations"][0]["calls"] == 2
    assert profile["figures"]["to_host"] == {"count": 1, "bytes": 4, "seconds": pytest.approx(5e-6)}


def test_fusions_are_explained(tmp_path):
    page = Outline(as_page(read_recording(profiled(tmp_path / "run", traces.of_xla()))))
    assert "loop_fusion.3 (adam/truediv)" in page.text
    assert "XLA has compiled these operations" in page.text


def test_steps_that_contradict_each_other_are_told(tmp_path):
    text = as_markdown(read_recording(profiled(tmp_path / "run", traces.of_gpu(), first=14, last=10)))
    assert "no figures: the journal contradicts itself about its steps" in text


def test_names_in_a_trace_are_no_markup(tmp_path):
    hostile = traces.plane(
        "/device:GPU:0", {"Stream #1": [traces.kernel(HOSTILE, "", 0, 5), traces.kernel("k", f"{HOSTILE}:X", 5, 5)]}
    )
    recording = read_recording(profiled(tmp_path / "run", hostile))
    page = Outline(as_page(recording))
    assert "img" not in page.tags
    assert not any("alert" in script for script in page.scripts)
    for text in (as_page(recording), as_markdown(recording)):
        assert "\x1b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"not a trace", "it is not a trace"),
        (traces.of_gpu()[:-20], "a part of it is missing"),
        (b"", "there is no operation in it"),
    ],
)
def test_a_trace_that_cannot_be_read_is_told_and_the_report_is_written(tmp_path, content, problem):
    recording = read_recording(profiled(tmp_path / "run", content))
    assert recording.profiles.taken[0].problem == problem
    assert problem in as_page(recording)
    assert as_document(recording)["profiles"][0]["problem"] == problem
    assert problem in as_markdown(recording)


@pytest.mark.parametrize("trace", ["", "../secret", "/etc/passwd", "profile/plugins/profile/../../../x.xplane.pb",
                                   "profile/plugins/profile/./x.xplane.pb", f"{TRACE}\n"])  # fmt: skip
def test_a_journal_names_no_other_file(tmp_path, trace):
    run = profiled(tmp_path / "run", trace=trace)
    (tmp_path / "run" / "x.xplane.pb").write_bytes(traces.of_gpu())
    assert read_recording(run).profiles.taken[0].problem == "the profiler wrote nothing"


def test_a_link_a_fifo_and_a_huge_file_are_not_read(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(traces.of_gpu())
    for number, make in enumerate((lambda path: path.symlink_to(elsewhere), os.mkfifo), 1):
        run = profiled(tmp_path / f"run{number}")
        (run / TRACE).parent.mkdir(parents=True)
        make(run / TRACE)
        assert "link, or not a regular file" in str(read_recording(run).profiles.taken[0].problem)
    monkeypatch.setattr(profiles, "MOST_BYTES", 100)
    assert (
        read_recording(profiled(tmp_path / "run3", traces.of_gpu())).profiles.taken[0].problem == "larger than expected"
    )


def test_a_part_of_the_window_and_a_missing_trace_are_told(tmp_path):
    run = profiled(tmp_path / "run", traces.of_gpu(), cut="ended")
    write(run, 2, "worker6", [(120, ProfileStarted(first=15)), (121, ProfileFailed(first=15, why="other-profiler"))])
    page = Outline(as_page(read_recording(run)))
    assert "recorded steps 11 to 12: the training ended there" in page.text
    assert "Step 15 is not recorded, since another profiler is running in the script." in page.text


def test_only_the_newest_traces_are_read(tmp_path):
    run = profiled(tmp_path / "run", traces.of_gpu())
    write(run, 1, "worker6", [(20, ProfileSaved(first=at, last=at, trace=TRACE)) for at in range(100, 1000)])
    assert [each.saved.first for each in read_recording(run).profiles.taken] == [995, 996, 997, 998, 999]


def test_a_run_without_a_profile_says_nothing_of_it(tmp_path):
    recording = read_recording(survived(tmp_path / "run"))
    assert "profile" not in Outline(as_page(recording)).ids
    assert "## Profile" not in as_markdown(recording)
    assert as_document(recording)["profiles"] == []
