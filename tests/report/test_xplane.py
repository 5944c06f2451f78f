"""A trace is read without TensorFlow, into figures that can be checked by hand; a damaged one is refused."""

from __future__ import annotations

import time

import pytest
import traces
from traces import MATMUL, RELU, Made, field, plane

from oomph.report import xplane
from oomph.report.profile_figures import Copies, ProfiledOperation, figures_of
from oomph.report.xplane import DamagedTraceError, LargeTraceError, Wanted, read_planes

EVERYTHING = Wanted(lambda plane: True, frozenset({"kernel_details", "correlation_id"}), lambda name, stats: True)


def test_a_gpu_trace_gives_idle_time_operations_launches_copies_and_input_wait():
    found = figures_of(traces.of_gpu())
    assert found.steps == 2
    assert found.seconds == pytest.approx(200e-6)
    assert found.idle == {"GPU 0": pytest.approx(1 - (85 + 60 + 5) / 200)}, "overlapping streams count once"
    assert found.operations[0] == ProfiledOperation(MATMUL, "", 2, pytest.approx(120e-6))
    assert ProfiledOperation(RELU, "", 1, pytest.approx(10e-6)) in found.operations
    assert found.launches == 3, "neither copies nor memsets, nor the lines that tools derive"
    assert found.to_device == Copies(2, 4000, pytest.approx(15e-6))
    assert found.to_host == Copies(1, 4, pytest.approx(5e-6))
    assert found.input_seconds == pytest.approx(10e-6), "two threads that wait at the same time wait once"
    assert not found.compiled


def test_on_the_host_only_what_begins_within_a_step_counts():
    between = [Made("evaluate:MatMul", 110, 80), Made("save:SaveV2", 400, 50)]
    steps = [traces.step(1, 0, 100), Made(MATMUL, 10, 50), *between, traces.step(2, 200, 100), Made(MATMUL, 260, 60)]
    found = figures_of(plane("/host:CPU", {"python": steps}))
    assert (found.steps, found.launches, found.seconds) == (2, 2, pytest.approx(200e-6))
    assert found.idle == {"CPU": pytest.approx(1 - 90 / 200)}


def test_devices_lag_behind_but_not_in_a_trace_that_goes_on_after_the_last_step():
    host = plane("/host:CPU", {"python": [traces.step(1, 0, 100)]})
    late = {"Stream #1": [traces.kernel("k", MATMUL, 50, 50), traces.kernel("k", MATMUL, 150, 50)]}
    trace = plane("/device:GPU:0", late) + host
    whole, cut = figures_of(trace), figures_of(trace, is_cut=True)
    assert (whole.launches, whole.seconds, whole.idle["GPU 0"]) == (2, pytest.approx(200e-6), pytest.approx(0.5))
    assert (cut.launches, cut.seconds, cut.idle["GPU 0"]) == (1, pytest.approx(100e-6), pytest.approx(0.5))


def test_a_fusion_is_named_with_what_it_was_compiled_from():
    found = figures_of(traces.of_xla())
    assert found.operations == [ProfiledOperation("loop_fusion.3", "adam/truediv", 1, pytest.approx(10e-6))]
    assert found.compiled
    assert found.input_seconds is None


def test_without_a_device_the_host_is_summarised_and_an_operation_has_its_own_time():
    found = figures_of(traces.of_host())
    own = {each.name: each.seconds for each in found.operations}
    assert own == {
        "while:While": pytest.approx(30e-6),
        "dense/MatMul:MatMul": pytest.approx(20e-6),
        "while/body/MatMul:MatMul": pytest.approx(10e-6),
        "Mul": pytest.approx(10e-6),
    }
    assert found.idle == {"CPU": pytest.approx(0.5)}
    assert (found.to_device, found.to_host) == (None, None)


def test_several_gpus_are_told_apart_and_an_unused_one_is_left_out():
    used = {"Stream #1": [traces.kernel("k", MATMUL, 0, 10)]}
    planes = plane("/device:GPU:0", used) + plane("/device:GPU:1", {"Stream #1": []}) + plane("/device:GPU:7", used)
    assert list(figures_of(planes).idle) == ["GPU 0", "GPU 7"]


def test_texts_may_be_references_or_spelled_out_and_numbers_negative():
    lines = {"Stream #1": [Made("k", -3, 2, {"kernel_details": "grid", "correlation_id": -5})]}
    for refs in (True, False):
        (found,) = read_planes(plane("/device:GPU:0", lines, begins_ns=10, refs=refs), EVERYTHING)
        (event,) = found.lines[0].events
        assert (event.begin, event.end) == (10_000 - 3 * traces.US, 10_000 - traces.US)
        assert event.stats == {"kernel_details": "grid", "correlation_id": "-5"}


def test_fields_of_a_later_version_are_skipped():
    unknown = field(90, "text") + field(91, 5) + bytes([0b1_101]) + bytes(4) + bytes([0b1_001]) + bytes(8)
    assert figures_of(unknown + traces.of_gpu() + unknown) == figures_of(traces.of_gpu())


def test_a_trace_without_operations_has_no_figures():
    assert figures_of(b"") is None
    assert figures_of(plane("/host:CPU", {"python": [Made("TFE_Py_Execute", 0, 5)]})) is None
    assert figures_of(plane("/host:CPU", {"python": [Made(MATMUL, 0, 0)]})) is None, "no time has passed"


@pytest.mark.parametrize("end", [1, 40, 300, -1, -20])
def test_a_cut_trace_is_refused(end):
    with pytest.raises(DamagedTraceError):
        figures_of(traces.of_gpu()[:end])


@pytest.mark.parametrize(
    "content", [b"\x0a", b"\xff" * 20, b"\x0b", b"not a trace", field(1, field(2, "/host:CPU") + field(3, b"\x22\x7f"))]
)
def test_what_is_not_a_trace_is_refused(content):
    with pytest.raises(DamagedTraceError):
        figures_of(content)


def test_a_trace_with_too_many_events_is_refused_at_once(monkeypatch):
    monkeypatch.setattr(xplane, "MOST_PARTS", 1000)
    many = plane("/host:CPU", {"python": [Made(MATMUL, at, 1) for at in range(501)]})
    assert figures_of(many).launches == 501
    for parts in (many + many, b"\x0a\x00" * 1001, field(1, b"\x1a\x00" * 1001), field(1, b"\x22\x00" * 1001)):
        with pytest.raises(LargeTraceError, match="more than 1,000 events"):
            figures_of(parts)


@pytest.mark.alone
def test_a_hundred_thousand_operations_take_a_second():
    many = plane("/host:CPU", {"python": [Made(f"layer{at % 100}/MatMul:MatMul", at, 1) for at in range(100_000)]})
    began = time.process_time()
    assert figures_of(many).launches == 100_000
    assert time.process_time() - began < 4, "measured: 0.6 s"
