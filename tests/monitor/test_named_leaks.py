"""Leaks whose cause is known are reported early, once and with its remedy; buffers are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.monitor.census import Census, Holding
from oomph.monitor.detection import Detection
from oomph.monitor.detectors.leaks import growing
from oomph.monitor.detectors.named_leaks import named_leak
from oomph.monitor.finding import Finding
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

MIB = 1 << 20
LIST = Holding("list", "Recorder.outputs", 0, 1, "EagerTensor")
MODELS = Holding("model", "model", 3)


def samples(
    holding: Holding, minutes: int = 12, total: int = 16_000, training=None, rate: float = 50.0
) -> list[Sample]:
    """Return a sample every five seconds, of a process that grows by 50 MiB a minute, with a census each minute."""
    made = []
    for time in range(0, minutes * 60, 5):
        more = 50 * time // 60
        used = 4000 + more
        sample = Sample(
            float(time),
            host={"memory_total_bytes": total * MIB, "memory_used_bytes": used * MIB},
            process={"resident_bytes": used * MIB},
            training=training(time) if training else {},
        )
        if time % 60 == 0:
            grown = replace(
                holding, count=holding.count + time // 6, bytes=holding.bytes and holding.bytes + more * MIB
            )
            sample = replace(sample, census=Census(float(time), 1, time, 1, used * MIB, None, (grown,)))
        made.append(sample)
    return made


def find(seen: list[Sample]) -> list[Finding]:
    window = Window()
    for sample in seen:
        window.append(sample)
    return list(named_leak.find(window))


def test_growing_list_is_reported_by_name_before_half_of_the_memory_is_gone():
    [found] = find(samples(LIST, total=5500))
    assert (found.fault, found.subject, found.kind, found.severity) == ("memory-leak", "host memory", "", "warning")
    assert found.message.startswith(
        "the script's memory is growing by 50 MiB a minute and will reach the limit in about "
    )
    assert "; the list Recorder.outputs has grown to 110 items of type EagerTensor, 550 MiB" in found.message
    assert found.evidence["grows"] == {"what": "list", "name": "Recorder.outputs"}
    assert found.remedy.startswith("Do not keep the outputs")
    told = next(place for place in range(1, 145) if find(samples(LIST, total=5500)[:place]))
    assert told * 5 * 50 / 60 / 1500 < 0.3


def test_kept_models_are_reported_sooner_than_a_list():
    assert find(samples(MODELS, total=7300))
    assert not find(samples(LIST, total=7300))


@pytest.mark.parametrize(
    "holding", [replace(LIST, is_bounded=True), replace(LIST, kind="deque", limit=10_000), replace(LIST, bytes=0)]
)
def test_buffers_and_unknown_growth_are_not_reported_early(holding):
    assert not find(samples(holding, total=5500))


def test_memory_needed_for_a_moment_does_not_count():
    seen = samples(LIST, total=7500)
    full = replace(
        seen[-1], time=seen[-1].time + 5, host=seen[-1].host | {"memory_used_bytes": 7400.0 * MIB}, census=None
    )
    assert not find([*seen, full])
    assert find([*seen, *(replace(full, time=full.time + later) for later in range(0, 60, 5))])


def test_leak_that_will_not_reach_the_limit_is_not_reported_early():
    def fit(minutes: float):
        return lambda time: {
            "epochs": 1.0, "epoch": 1.0, "steps_per_epoch": 60 * minutes, "step_of_epoch": float(time),
            "steps_total": float(time), "step_seconds_total": float(time),
        }  # fmt: skip

    assert find(samples(LIST, total=5500, training=fit(60)))
    assert not find(samples(LIST, total=5500, training=fit(15)))


def test_another_fit_in_the_same_process_may_be_followed_by_more():
    def third_fit(time: int) -> dict[str, float]:
        return {
            "epochs": 1.0, "epoch": 1.0, "steps_per_epoch": 900.0, "step_of_epoch": float(time),
            "steps_total": 1800.0 + time, "step_seconds_total": 1800.0 + time,
        }  # fmt: skip

    [found] = find(samples(LIST, total=5500, training=third_fit))
    assert found.severity == "warning"
    assert "after this training ends" not in found.message


def test_objects_kept_by_key_are_only_a_notice():
    iterators = Holding("iterator", "iterator", 3)
    streams = Holding("dict", "streams (in main)", 3, 0, "OwnedIterator", is_bounded=True)
    seen = [
        each if each.census is None else replace(each, census=replace(each.census, holdings=(
            *each.census.holdings, replace(streams, count=each.census.holdings[0].count)
        )))
        for each in samples(iterators, total=5400)
    ]  # fmt: skip
    [found] = find(seen)
    assert (found.severity, found.kind) == ("notice", "filling")
    assert found.message.endswith("the dict streams (in main) has grown with them, unless it soon has all its keys")


def test_leak_is_over_once_nothing_grows():
    seen = samples(LIST, total=5500)
    later = [replace(seen[-1], time=seen[-1].time + 5 * more, census=None) for more in range(1, 100)]
    assert find(seen)
    assert not find(seen + later)


def test_leak_is_told_once_although_two_detectors_find_it():
    detection = Detection([named_leak, growing])
    told = [
        found
        for sample in samples(LIST, minutes=29, total=5500)
        for found in detection.take(sample).told
    ]  # fmt: skip
    assert [(found.severity, found.kind) for found in told] == [("warning", "")]


def test_leak_found_from_outside_is_named_too():
    window = Window()
    for sample in samples(replace(LIST, is_bounded=True), minutes=29, total=5500):
        window.append(sample)
    [found] = growing.find(window)
    assert "; the list Recorder.outputs has grown to" in found.message


def test_growth_waits_for_its_name_while_there_is_memory():
    """The first censuses say nothing yet; the leak is found from outside, by a plan that is nearly over."""

    def fit(time: int) -> dict[str, float]:
        return {
            "epochs": 1.0, "epoch": 1.0, "steps_per_epoch": 1800.0, "step_of_epoch": float(time),
            "steps_total": float(time), "step_seconds_total": float(time),
        }  # fmt: skip

    seen = samples(LIST, minutes=29, total=16_000, training=fit)
    few = [replace(sample, census=sample.census if sample.time > 1560 else None) for sample in seen]
    full = [replace(each, host=each.host | {"memory_total_bytes": 7000 * MIB}) for each in few]
    found = {}
    for name, made in (("few", few), ("full", full), ("named", seen)):
        window = Window()
        for sample in made:
            window.append(sample)
        found[name] = [each.message for each in growing.find(window)]
    assert found["few"] == []
    assert "the list" not in found["full"][0]
    assert "the list" in found["named"][0]


def test_notice_is_left_out_if_the_rest_of_a_buffer_will_fit():
    def notices(limit: int) -> int:
        window = Window()
        for sample in samples(replace(LIST, kind="deque", limit=limit), minutes=14, total=5500):
            window.append(sample)
        return len(list(growing.find(window)))

    assert (notices(150), notices(100_000)) == (0, 1)
