"""What grows in a leak is named from frozen censuses, and buffers are told from leaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oomph.monitor.census import Census, Holding, as_document, census_of
from oomph.monitor.leak_cause import LeakCause, ProcessGrowth, cause_of

MIB = 1 << 20
OUTPUTS = Holding("list", "Recorder.outputs", 100, 100 * MIB, "EagerTensor")


def censuses(*growing: Holding, steady: tuple[Holding, ...] = (), number: int = 6, each: int = 20) -> list[Census]:
    """Return censuses ten seconds and 20 MiB apart; what grows is `each` larger in count, or in MiB if it has bytes."""

    def at(holding: Holding, place: int) -> Holding:
        bytes_more = each * MIB * place if holding.bytes else 0
        return replace(holding, count=holding.count + each * place, bytes=holding.bytes + bytes_more)

    return [
        Census(
            1000.0 + 10 * place, 1, 100 * place, 1, (1000 + 20 * place) * MIB, None,
            (*steady, *(at(one, place) for one in growing)),
        )
        for place in range(number)
    ]  # fmt: skip


def named(*growing: Holding, **how) -> LeakCause:
    found = cause_of(censuses(*growing, **how))
    assert found is not None
    return found


def test_list_that_explains_the_growth_is_named_with_its_owner():
    cause = named(OUTPUTS, Holding("object", "Net", 7), Holding("graph", "step", 3))
    assert (cause.kind, cause.what, cause.name) == ("container", "list", "Recorder.outputs")
    assert cause.text == "the list Recorder.outputs has grown to 200 items of type EagerTensor, 200 MiB"
    assert (cause.since, cause.until, cause.resident_growth) == (1000.0, 1050.0, 100 * MIB)


def test_list_inside_another_object_is_named_instead_of_what_contains_it():
    around = Holding("list", "CallbackList.callbacks", 2, 120 * MIB)
    seen = [
        replace(census, holdings=(replace(around, bytes=census.holdings[0].bytes + 20 * MIB), *census.holdings))
        for census in censuses(OUTPUTS)
    ]
    found = cause_of(seen)
    assert found is not None
    assert found.name == "Recorder.outputs"


@pytest.mark.parametrize(
    ("kinds", "what"),
    [(["graph", "iterator", "model", "optimizer"], "model"), (["graph", "tensor"], "graph"), (["figure"], "figure")],
)
def test_objects_are_named_by_what_holds_the_others(kinds, what):
    cause = named(*(Holding(kind, kind, 10) for kind in kinds))
    assert (cause.kind, cause.what) == ("counted", what)


@pytest.mark.parametrize(
    ("beside", "kept"),
    [
        (Holding("list", "histories", 5, 5000, "History"), "; the list histories has grown with them"),
        (Holding("list", "scores", 5, 280, "float"), ""),
        (Holding("dict", "by_fold", 5, 0, ""), ""),
    ],
)
def test_container_that_keeps_counted_objects_is_named(beside, kept):
    cause = named(Holding("model", "model", 10), beside, each=1)
    assert (cause.kind, cause.text) == ("counted", f"15 models are alive{kept}")


def test_models_in_a_list_that_the_script_prunes_are_no_leak():
    trials = Holding("list", "trials", 5, 5000, "Trial", is_bounded=True)
    assert named(Holding("model", "model", 10), trials, each=1).kind == "buffer"


def test_iterator_of_a_long_pipeline_is_kept_where_as_many_iterators_were_added():
    kept = Holding("list", "streams", 5, 5000, "OwnedIterator")
    seen = [
        replace(
            census,
            holdings=(*census.holdings, Holding("iterator", "iterator", 3 + place), replace(kept, count=3 + place)),
        )
        for place, census in enumerate(censuses(Holding("dataset", "dataset", 10), each=5))
    ]
    found = cause_of(seen)
    assert found is not None
    assert found.text.endswith("datasets are alive; the list streams has grown with them")


def test_objects_kept_by_key_may_be_limited_by_the_number_of_keys():
    streams = Holding("dict", "streams (in main)", 5, 5000, "OwnedIterator", is_bounded=True)
    assert named(Holding("iterator", "iterator", 10), streams, each=1).kind == "kept by key"


def test_container_that_grows_much_faster_than_the_counted_objects_does_not_keep_them():
    seen = [
        replace(census, holdings=(*census.holdings, Holding("list", "lines", 1000 * place, 9, "Line")))
        for place, census in enumerate(censuses(Holding("model", "model", 10), each=1))
    ]
    found = cause_of(seen)
    assert found is not None
    assert found.text == "15 models are alive"


def test_each_kind_has_its_own_remedy():
    kinds = ["figure", "model", "tape", "iterator", "graph", "writer", "thread"]
    remedies = {named(Holding(kind, kind, 10)).remedy for kind in kinds}
    assert len(remedies) == len(kinds)
    assert "plt.close" in named(Holding("figure", "figure", 10)).remedy


def test_scalar_tensors_and_whole_outputs_have_different_remedies():
    scalars = [
        replace(
            census, holdings=(Holding("list", "losses", 10**6 * place + 10**6, 40 * MIB * place + MIB, "EagerTensor"),)
        )
        for place, census in enumerate(censuses())
    ]
    found = cause_of(scalars)
    assert found is not None
    assert "float(loss)" in found.remedy
    assert "float(loss)" not in named(OUTPUTS).remedy


def test_limited_containers_are_buffers():
    assert named(replace(OUTPUTS, kind="deque", limit=400)).kind == "buffer"
    assert named(replace(OUTPUTS, kind="deque", limit=400)).still_to_come == 200 * MIB
    assert named(replace(OUTPUTS, is_bounded=True)).kind == "buffer"


def test_container_that_levels_off_is_a_buffer():
    seen = [
        replace(census, holdings=(Holding("dict", "contexts", count, count << 20, "ndarray"),))
        for census, count in zip(censuses(number=8), (100, 160, 200, 225, 240, 250, 257, 262), strict=True)
    ]
    found = cause_of(seen)
    assert found is not None
    assert (found.kind, found.name) == ("buffer", "contexts")


def test_container_that_takes_over_the_items_of_another_is_a_buffer_with_an_end():
    pool = Holding("list", "unlabelled", 500, 0, "int")
    seen = [
        replace(census, holdings=(*census.holdings, replace(pool, count=500 - 20 * place)))
        for place, census in enumerate(censuses(OUTPUTS))
    ]
    found = cause_of(seen)
    assert found is not None
    assert (found.kind, found.name, found.still_to_come) == ("buffer", "Recorder.outputs", 400 * MIB)


@pytest.mark.parametrize("kind", ["dict", "cache", "cycle"])
def test_cache_that_still_grows_two_epochs_later_is_not_a_buffer(kind):
    cached = censuses(replace(OUTPUTS, kind=kind, is_bounded=True))
    later = [replace(census, epoch=place) for place, census in enumerate(cached)]
    first, second = cause_of(cached), cause_of(later)
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == ("buffer", "container")


def test_garbage_that_is_collected_now_and_then_is_not_named():
    sawtooth = [
        replace(census, holdings=(Holding("object", "Episode", 10 + 100 * (place % 3)),))
        for place, census in enumerate(censuses(number=9))
    ]
    found = cause_of(sawtooth)
    assert found is not None
    assert found.kind == "unknown"


def test_too_few_censuses_name_nothing():
    assert cause_of(censuses(OUTPUTS, number=3)) is None
    assert cause_of([]) is None


def test_growth_that_stopped_is_not_named():
    stopped = [*censuses(OUTPUTS), *([replace(censuses(OUTPUTS)[-1], time=1060.0)] * 3)]
    found = cause_of(stopped)
    assert found is not None
    assert found.kind == "unknown"


def test_small_list_is_not_blamed_for_memory_that_it_does_not_explain():
    seen = [
        replace(census, holdings=(Holding("list", "losses", 100 * place, 2400 * place, "float"),))
        for place, census in enumerate(censuses())
    ]
    cause = cause_of(seen)
    assert cause is not None
    assert cause.kind == "unknown"
    assert "Dataset.cache()" in cause.remedy


def process(pid: int, grows: float, is_script: bool = False, begin: float = 0.0, number: int = 9) -> ProcessGrowth:
    points = [(begin + 20.0 * place, (100 + grows * place) * MIB) for place in range(number)]
    return ProcessGrowth(pid, "python", is_script, points)


def test_growing_child_process_is_named():
    cause = cause_of(censuses(), [process(1, 1.0, is_script=True), process(7, 40.0), process(8, 0.0)])
    assert cause is not None
    assert (cause.kind, cause.what, cause.name) == ("child", "child", "7")
    assert cause.text.startswith("child process 7 (python) has grown by 320 MiB")


def test_more_and_more_child_processes_are_named():
    new = [process(10 + number, 0.0, begin=100.0) for number in range(6)]
    cause = cause_of((), [process(1, 0.0, is_script=True), process(2, 0.0), *new])
    assert cause is not None
    assert cause.text == "6 child processes have been added and hold 600 MiB"


def test_growing_script_is_not_blamed_on_its_children():
    cause = cause_of(censuses(OUTPUTS), [process(1, 40.0, is_script=True), process(7, 1.0)])
    assert cause is not None
    assert cause.what == "list"


def test_census_is_read_as_it_was_written_without_what_cannot_be_printed():
    census = censuses(OUTPUTS, Holding("graph", "step", 3))[0]
    assert census_of(as_document(census)) == census
    hostile = replace(census, holdings=(replace(OUTPUTS, name="\x1b[31m"), replace(OUTPUTS, items="\u202e"), OUTPUTS))
    assert census_of(as_document(hostile)) == replace(census, holdings=(OUTPUTS,))


@pytest.mark.parametrize("document", [None, [], {}, {"time": 1}, {**as_document(censuses()[0]), "step": -1}])
def test_planted_census_is_refused(document):
    assert census_of(document) is None
