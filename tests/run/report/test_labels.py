"""A run's label, from its events alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.journal.journal import Event
from oomph.protocol.reasons import because
from oomph.run.report.labels import MEANING, ORDER, STOPPED, Labelled, label_of, worst

EQUAL = {"steps": 12, "covered": 12, "repeated": 12, "equal": True, "cause": ""}
OTHER_DATA = {"steps": 1, "equal": False, "cause": "the data or its order changed, from epoch 2, step 5 on"}


def happened(attempt: int, name: str, key: str = "a-0", role: str = "owner", **data: Any) -> Event:
    return Event.named(name, {"key": key, **data}, attempt=attempt, role=role)


def killed(*fits: str, finished: tuple[str, ...] = ()) -> list[Event]:
    """Return a first attempt that starts these fits and is killed in the last one that has not finished."""
    events = [happened(1, "fit-started", fit, guard="exact") for fit in fits or ("a-0",)]
    events += [happened(1, "fit-finished", fit, micro_batch=None) for fit in finished]
    return [*events, happened(1, "attempt-ended", steps=412, saved=400)]


def resumed(fit: str = "a-0", kind: str = "exact", attempt: int = 2, **data: Any) -> list[Event]:
    return [
        happened(attempt, "fit-started", fit, guard="exact"),
        happened(attempt, "resumed", fit, **{"kind": kind, "steps": 400, **data}),
    ]


def returned(fit: str = "a-0", attempt: int = 2) -> Event:
    return happened(attempt, "resumed", fit, kind="finished")


def labels(*events: Event | list[Event], code: int | None = 0) -> Labelled:
    flat = [one for each in events for one in (each if isinstance(each, list) else [each])]
    found = label_of(flat, code)
    return Labelled(found.label, tuple(map(str, found.reasons)))


# -- one attempt ------------------------------------------------------------------------------------------------------


def test_uninterrupted_run_is_exact():
    assert labels(happened(1, "fit-started"), happened(1, "fit-finished")) == Labelled("exact")


def test_run_without_a_guarded_fit_is_unguarded_whatever_it_trained():
    assert label_of([], 0).label == "unguarded"
    loop = [
        Event.named("loop-seen", {"restored": 0}, attempt=1),
        Event.named("attempt-ended", {"steps": 11}, attempt=1),
    ]
    assert label_of(loop, 0).label == "unguarded"
    again = Event.named("loop-seen", {"restored": 0}, attempt=2)
    assert label_of([*loop, again], 0).label == "unguarded"


@pytest.mark.parametrize("code", [1, 2, 93, 137])
def test_failed_run_is_labelled_failed_and_keeps_its_reasons(code):
    assert labels(happened(1, "fit-started"), code=code) == Labelled("failed")
    lost = labels(killed(), resumed(lost=["a counter"]), code=code)
    assert lost == Labelled("failed", ("a counter",))


@pytest.mark.parametrize("code", [None, *STOPPED])
def test_stopped_or_running_run_is_not_labelled_failed(code):
    assert labels(happened(1, "fit-started"), code=code).label == "exact"


@pytest.mark.parametrize(
    ("guard", "label"), [("exact", "exact"), ("approximate", "approximate"), ("smaller batches", "not-equal")]
)
def test_fit_with_micro_batches_gets_its_guards_label(guard, label):
    began = happened(1, "fit-started", guard=guard)
    assert labels(began).label == "exact", "nothing was divided"
    assert labels(began, happened(1, "recovered", micro_batch=8)).label in (label, "exact")
    assert labels(began, happened(1, "fit-finished", micro_batch=8, guard=guard)).label == label
    assert labels(Event.named("fit-started", {"fit": 0, "guard": guard}, attempt=1),
                  Event.named("recovered", {"fit": 0, "micro_batch": 8}, attempt=1)).label == label  # fmt: skip


def test_split_batches_are_given_as_the_reason():
    divided = happened(1, "fit-finished", micro_batch=8, guard="smaller batches")
    assert labels(happened(1, "fit-started"), divided) == Labelled(
        "not-equal", ("a batch that did not fit was split into smaller batches, each with its own update",)
    )


def test_generator_shared_with_a_resumed_fit_makes_the_next_fit_not_equal():
    told = happened(2, "passed-on", reason="fit at train.py:9 goes on with a generator")
    found = labels(killed(), resumed(), happened(2, "compared", **EQUAL), told)
    assert found == Labelled("not-equal", ("fit at train.py:9 goes on with a generator",))


def test_approximate_run_states_its_reason():
    started = happened(1, "fit-started", fit=0, guard="approximate", reason="BatchNormalization sees each part alone")
    divided = happened(1, "fit-finished", fit=0, micro_batch=8, guard="approximate")
    assert labels(started, divided).reasons == ("BatchNormalization sees each part alone",)
    probed = happened(1, "probed", fit=0, kind="approximate", reason="random numbers that cannot be drawn again")
    recovered = happened(1, "recovered", fit=0, micro_batch=8)
    assert labels(started, probed, recovered, divided).reasons == ("random numbers that cannot be drawn again",)


def test_approximate_probe_makes_an_exactly_guarded_run_approximate():
    probed = [Event.named("probed", {"fit": 0, "kind": kind}, attempt=1) for kind in ("exact", "approximate")]
    found = labels(Event.named("fit-started", {"fit": 0, "guard": "exact"}, attempt=1), probed)
    assert found.label == "approximate"
    assert labels(Event.named("fit-started", {"fit": 0, "guard": "exact"}, attempt=1), probed[:1]).label == "exact"


# -- resumed ----------------------------------------------------------------------------------------------------------


def test_resumed_fit_is_unverified_until_a_step_was_compared():
    assert labels(killed(), resumed()).label == "unverified"
    assert labels(killed(), resumed(), happened(2, "compared", **EQUAL)).label == "verified"


@pytest.mark.parametrize(
    ("compared", "label", "reasons"),
    [
        ([], "not-equal", ("the script resumed on its own at epoch 18",)),
        ([happened(2, "compared", **EQUAL, epochs=1)], "verified", ()),
        ([happened(2, "compared", **EQUAL)], "not-equal", ("the script resumed on its own at epoch 18",)),
        (
            [happened(2, "compared", **{**EQUAL, "covered": 3, "steps": 3}, epochs=1)],
            "not-equal",
            ("the script resumed on its own at epoch 18",),
        ),
        (
            [happened(2, "compared", **OTHER_DATA)],
            "not-equal",
            ("the script resumed on its own at epoch 18", OTHER_DATA["cause"]),
        ),
    ],
)
def test_self_resuming_script_is_not_labelled_started_over(compared, label, reasons) -> None:
    reason = "the script resumed on its own at epoch 18"
    itself = [happened(2, "fit-started"), happened(2, "resumed-itself", steps=400, reason=reason)]
    assert labels(killed(), itself, compared) == (label, reasons)


@pytest.mark.parametrize("kind", ["exact", "replayed"])
@pytest.mark.parametrize(
    ("covered", "label"), [(3, "unverified"), (214, "unverified"), (215, "proved"), (280, "proved"), (286, "proved")]
)
def test_comparing_only_a_few_of_many_repeated_steps_does_not_verify_them(covered: int, label: str, kind: str) -> None:
    begun = [happened(1, "fit-started"), happened(1, "attempt-ended", steps=686, saved=400)]
    compared = happened(2, "compared", steps=3, epochs=0, covered=covered, repeated=286, equal=True)
    proved = {"exact": "verified", "replayed": "replayed"}[kind]
    reasons = ("3 of 286 repeated steps compared, equal",)
    assert labels(begun, resumed(kind=kind), compared) == Labelled(proved if label == "proved" else label, reasons)


def test_steps_without_a_witness_count_as_repeated() -> None:
    begun = [happened(1, "fit-started"), happened(1, "attempt-ended", steps=800, saved=400)]
    compared = happened(2, "compared", steps=100, covered=100, repeated=100, equal=True)
    assert labels(begun, resumed(), compared) == ("unverified", ("100 of 400 repeated steps compared, equal",))


def test_equal_state_at_the_end_of_an_epoch_covers_its_steps() -> None:
    begun = [happened(1, "fit-started"), happened(1, "attempt-ended", steps=686, saved=400)]
    compared = happened(2, "compared", steps=4, epochs=2, covered=280, repeated=286, equal=True)
    words = "4 of 286 repeated steps and the state after 2 epochs compared, equal"
    assert labels(begun, resumed(), compared) == ("verified", (words,))


def test_killed_attempt_is_compared_only_up_to_its_last_checkpoint() -> None:
    begun = [happened(1, "fit-started"), happened(1, "attempt-ended", steps=686, saved=400)]
    early = happened(2, "compared", steps=100, covered=100, repeated=286, equal=True)
    saved = [*resumed(), early, happened(2, "checkpoint"), happened(2, "attempt-ended", steps=600, saved=500)]
    rest = happened(3, "compared", steps=186, covered=186, repeated=186, equal=True)
    assert labels(begun, saved, resumed(attempt=3, steps=500), rest) == ("verified", ())
    later = [happened(2, "checkpoint"), happened(2, "attempt-ended", steps=650, saved=640)]
    again = [*resumed(attempt=3, steps=640), happened(3, "compared", steps=46, covered=46, repeated=46, equal=True)]
    assert labels(begun, resumed(), early, later, again).label == "unverified"


def test_attempt_without_traces_does_not_undo_a_later_verification() -> None:
    nothing = [*resumed(), happened(2, "attempt-ended", steps=400, saved=400)]
    assert labels(killed(), nothing, resumed(attempt=3), happened(3, "compared", **EQUAL)).label == "verified"
    assert labels(killed(), nothing).label == "unverified"


def test_redrawn_batches_are_labelled_replayed_only_once_compared():
    assert labels(killed(), resumed(kind="replayed")).label == "unverified"
    assert labels(killed(), resumed(kind="replayed"), happened(2, "compared", **EQUAL)).label == "replayed"


def test_differing_results_are_labelled_not_equal_with_their_cause():
    found = labels(killed(), resumed(), happened(2, "compared", **EQUAL), happened(2, "compared", **OTHER_DATA))
    assert found == Labelled("not-equal", (OTHER_DATA["cause"],))


def test_known_losses_are_listed_before_the_difference_they_caused():
    found = labels(killed(), resumed(lost=["a list"]), happened(2, "compared", **OTHER_DATA))
    assert found == Labelled("not-equal", ("a list", OTHER_DATA["cause"]))


def test_equal_steps_do_not_outweigh_an_earlier_difference():
    found = labels(killed(), resumed(), happened(2, "compared", **OTHER_DATA), happened(2, "compared", **EQUAL))
    assert found == Labelled("not-equal", (OTHER_DATA["cause"],))


@pytest.mark.parametrize("facts", [{"lost": ["a closure"]}, {"meant": ["a closure"]}])
def test_known_loss_or_edit_outweighs_equal_steps(facts):
    found = labels(killed(), resumed(**facts), happened(2, "compared", **EQUAL))
    assert found == Labelled("not-equal", ("a closure",))


def test_restarted_epoch_makes_the_run_not_equal():
    found = labels(killed(), resumed(kind="epoch"), happened(2, "compared", **EQUAL))
    assert found == Labelled("not-equal", ("the interrupted epoch was restarted",))


def test_comparison_from_another_fit_or_attempt_proves_nothing():
    assert labels(killed(), resumed(), happened(2, "compared", "b-0", **EQUAL)).label == "unverified"
    assert labels(killed(), happened(1, "compared", **EQUAL), resumed()).label == "unverified"
    assert labels(killed(), resumed(), happened(2, "compared", role="worker-7", **EQUAL)).label == "unverified"


def test_run_gets_the_label_of_its_worst_attempt():
    twice = [*resumed(), happened(2, "compared", **EQUAL), *resumed(attempt=3)]
    assert labels(killed(), twice).label == "unverified"
    assert labels(killed(), twice, happened(3, "compared", **EQUAL)).label == "verified"


def test_fit_without_a_checkpoint_counts_as_started_over_despite_equal_steps():
    assert labels(killed(), happened(2, "fit-started")).label == "started-over"
    assert labels(killed(), happened(2, "fit-started"), happened(2, "compared", **EQUAL)).label == "started-over"


def test_verified_resume_does_not_hide_an_approximate_recovery():
    divided = happened(1, "fit-finished", micro_batch=8, guard="approximate")
    assert labels(killed(), divided, resumed(), happened(2, "compared", **EQUAL)).label == "approximate"


def test_approximate_division_is_named_before_the_difference_that_it_may_explain():
    guard = {"guard": "approximate", "reason": "BatchNormalization", "coupling": "batch-normalization"}
    divided = [happened(1, "fit-started", fit=0, **guard), happened(1, "recovered", fit=0)]
    difference = {"equal": False, "cause": {"code": "other-result", "epoch": 1, "step": 7}}
    found = labels(killed(), divided, resumed(), happened(2, "compared", **{**EQUAL, **difference}))
    assert found.label == "not-equal"
    assert [str(reason).partition(",")[0] for reason in found.reasons] == [
        "BatchNormalization",
        "the same batch gives a different result",
    ]


@pytest.mark.parametrize(
    ("change", "label", "reasons"),
    [
        (
            {"name": "skip-batch", "value": "fit 1, epoch 1, step 7"},
            "not-equal",
            ("leaving out the batch at fit 1, epoch 1, step 7",),
        ),
        ({"name": "precision", "value": ""}, "not-equal", ("in mixed_bfloat16",)),
        ({"name": "no-xla", "value": ""}, "verified", ()),
        (None, "verified", ()),
    ],
)
def test_mathematical_change_makes_the_run_not_equal_despite_equal_earlier_steps(change, label, reasons):
    decided = Event.named("decided", {"action": "restart", "change": change}, attempt=1)
    assert labels(killed(), decided, resumed(), happened(2, "compared", **EQUAL)) == Labelled(label, reasons)


# -- several fits -----------------------------------------------------------------------------------------------------


def test_fit_after_one_that_was_returned_gets_its_comparison_label():
    first, second = killed("a-0", "b-0", finished=("a-0",)), happened(2, "fit-started", "b-0")
    assert labels(first, returned(), second).label == "unverified"
    assert labels(first, returned(), second, happened(2, "compared", "b-0", **EQUAL)).label == "verified"


def test_run_killed_between_two_fits_is_unverified():
    first = killed("a-0", finished=("a-0",))
    assert labels(first, returned(), happened(2, "fit-started", "b-0")).label == "unverified"
    assert labels(first, returned()).label == "unverified", "killed after its last fit"


def test_finished_fit_skipped_by_the_script_makes_the_next_one_not_equal():
    """`if not os.path.exists(weights): fit; save`, then the main training: its random numbers differ."""
    first = killed("a-0", finished=("a-0",))
    found = labels(first, happened(2, "fit-started", "b-0"))
    assert found == Labelled("not-equal", ("fit 1 was finished by an earlier attempt, but not reached again",))
    both = killed("a-0", "b-0", finished=("a-0",))
    assert labels(both, resumed("b-0")).label == "unverified", "a checkpoint of its own has all that it needs"
    assert labels(both, resumed("b-0"), happened(2, "compared", "b-0", **EQUAL)).label == "verified"
    assert labels(both, happened(2, "fit-started", "b-0")).label == "started-over"


def test_interrupted_fit_never_reached_again_makes_the_run_not_equal():
    """For example, the call to fit was edited, so it is a different fit now."""
    first = killed("a-0")
    why = ("fit 1 was started by an earlier attempt, but not reached again",)
    assert labels(first, happened(2, "fit-started", "b-0")) == Labelled("not-equal", why)
    assert labels(first, happened(2, "fit-started", "b-0"), code=75).label == "unverified", "it may still come to it"
    both = [happened(2, "fit-started", "b-0"), *resumed("a-0")]
    assert labels(first, both, happened(2, "compared", **EQUAL)).label == "verified"


def test_finished_fit_reached_after_a_new_one_makes_the_run_not_equal():
    first = killed("a-0", "b-0", finished=("a-0", "b-0"))
    assert labels(first, returned("a-0"), returned("b-0"), happened(2, "fit-started", "c-0")).label == "unverified"
    assert labels(first, returned("a-0"), happened(2, "fit-started", "c-0"), returned("b-0")).label == "not-equal"
    again = [happened(2, "trains-again", "b-0", reason="x"), happened(2, "fit-started", "b-0")]
    assert labels(first, returned("a-0"), again, happened(2, "fit-started", "c-0")).label == "unverified"


def test_run_killed_before_any_training_is_exact():
    before = [Event.named("attempt-started", {}, attempt=1), Event.named("attempt-ended", {"steps": 0}, attempt=1)]
    assert labels(before, happened(2, "fit-started")).label == "exact"


def test_retrained_finished_fit_is_labelled_by_its_compared_steps():
    again = [happened(2, "trains-again", reason="a file is gone"), happened(2, "fit-started")]
    assert labels(killed(), again).label == "unverified"
    assert labels(killed(), again, happened(2, "compared", **EQUAL)).label == "verified"
    assert labels(killed(), again, happened(2, "compared", **OTHER_DATA)).label == "not-equal"


def test_returning_a_result_from_before_an_edit_makes_the_run_not_equal():
    first = killed("a-0", "b-0", finished=("a-0",))
    edited = happened(2, "resumed", "a-0", kind="finished", meant=["train.py was edited"])
    found = labels(first, edited, resumed("b-0"), happened(2, "compared", "b-0", **EQUAL))
    assert found == Labelled("not-equal", ("train.py was edited",))


def test_run_with_missing_earlier_journals_is_labelled_started_over():
    assert labels(happened(2, "fit-started"), happened(2, "fit-finished")).label == "started-over"


def test_short_fit_without_a_kept_end_state_trains_again_and_is_compared():
    first = [happened(1, "fit-started", "a-0", fit=0), happened(1, "fit-finished", "a-0", fit=0, too_dear=True)]
    first += [happened(1, "fit-started", "b-0", fit=1)]
    again = [happened(2, "fit-started", "a-0", fit=0), happened(2, "fit-finished", "a-0", fit=0)]
    second = [happened(2, "fit-started", "b-0", fit=1), happened(2, "resumed", "b-0", fit=1, kind="exact")]
    proofs = [happened(2, "compared", key, **EQUAL) for key in ("a-0", "b-0")]
    assert labels(first, again, second, *proofs).label == "verified"
    assert labels(first, again, second, proofs[1]).label == "unverified"
    kept = [first[0], happened(1, "fit-finished", "a-0", fit=0), first[2]]
    assert labels(kept, again, second, *proofs).label == "started-over"


def test_fit_killed_before_its_first_step_keeps_earlier_comparisons():
    first = [happened(1, "fit-started", "a-0", fit=0)]
    first += [happened(1, "fit-finished", "a-0", fit=0, too_dear=True, reached=12)]
    begun = happened(1, "fit-started", "b-0", fit=1)
    again = [happened(2, "fit-started", "a-0", fit=0), happened(2, "compared", "a-0", **EQUAL)]
    second = happened(2, "fit-started", "b-0", fit=1)
    before, within = (happened(1, "attempt-ended", steps=steps, saved=0) for steps in (12, 13))
    assert labels(first, begun, before, again, second).label == "verified"
    assert labels(first, begun, within, again, second).label == "started-over"
    assert labels(first, begun, before, again[:1], second).label == "unverified", "nothing was compared"


def test_checkpoint_after_an_edited_fit_counts_as_before_the_edit():
    """The edit changes the fit's key and number."""
    first = [happened(1, "fit-started", "a-0", fit=0), happened(1, "fit-finished", "a-0", fit=0)]
    first.append(happened(1, "fit-started", "b-0", fit=1))
    goes_on = [happened(2, name, "b-0", fit=1, kind="exact") for name in ("fit-started", "resumed")]
    proved = happened(2, "compared", "b-0", **EQUAL)
    edited = [happened(2, name, "e-0", fit=2, edited_fit=0) for name in ("trains-again", "fit-started")]
    why = ("the state of fit 2 is from before fit 1 was edited",)
    assert labels(first, edited, goes_on, proved) == Labelled("not-equal", why)
    as_it_was = [happened(2, name, "a-0", fit=0) for name in ("trains-again", "fit-started")]
    assert labels(first, as_it_was, goes_on, proved).label == "unverified"


@pytest.mark.parametrize("name", ["trusted", "another-way"])
def test_trusted_result_or_changed_script_flow_makes_the_run_not_equal(name):
    found = labels(killed(), returned(), happened(2, name, reason="why"))
    assert found == Labelled("not-equal", ("why",))


def test_owners_resume_does_not_cover_fits_in_other_processes():
    spawned = [happened(1, "fit-started", role="worker-7"), happened(2, "fit-started", role="worker-9")]
    assert (
        labels(killed("b-0"), spawned, resumed("b-0"), happened(2, "compared", "b-0", **EQUAL)).label == "started-over"
    )


# -- journals of an older oomph ---------------------------------------------------------------------------------------


# -- the script's own loops -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("restored", "label"), [(0, "started-over"), (10, "unverified")])
def test_loop_alongside_a_fit_is_labelled_by_whether_it_was_restored(restored, label):
    loop = [
        Event.named("loop-seen", {"restored": 0, "guarded": True}, attempt=1),
        Event.named("attempt-ended", {"steps": 11}, attempt=1),
    ]
    again = Event.named("loop-seen", {"restored": restored, "guarded": True}, attempt=2)
    assert labels(loop, again).label == label
    assert labels(loop).label == "exact"


# -- the worst label --------------------------------------------------------------------------------------------------


def test_every_label_has_a_meaning():
    assert set(MEANING) == set(ORDER)


def test_run_without_events_is_exact():
    assert worst([]) == Labelled("exact")


def test_reasons_for_inequality_are_listed_once_under_a_worse_label():
    first, second = because("order-unseeded"), because("epoch-restarted")
    found = worst([Labelled("not-equal", (second, first)), Labelled("started-over"), Labelled("not-equal", (first,))])
    assert found == Labelled("started-over", (first, second)), "causes stand first"


@given(st.lists(st.sampled_from(ORDER)), st.randoms())
def test_worst_label_does_not_depend_on_the_order(found, shuffled):
    before = worst(map(Labelled, found)).label
    shuffled.shuffle(found)
    assert worst(map(Labelled, found)).label == before
    assert before == max(found, key=ORDER.index, default="exact")


# -- attempts that leave nothing, and calls that were edited ----------------------------------------------------------


def test_failed_resume_without_traces_does_not_affect_the_next_attempt():
    refused = [happened(2, "fit-started", guard="exact"), happened(2, "resume-postponed")]
    last = [*resumed(attempt=3), happened(3, "compared", **EQUAL)]
    assert labels(killed(), refused, last).label == "verified"
    assert labels(killed(), refused).label == "started-over", "nothing came after it"
    saved = [happened(2, "fit-started", guard="exact"), happened(2, "checkpoint")]
    assert labels(killed(), saved, last).label == "started-over"


def test_changes_are_listed_before_objects_that_were_not_restored():
    """The result line shows three reasons, and the change must be one of them."""
    lost = [because("object", where=f"callback Own.{name}", what="Strange").as_data() for name in "abc"]
    lost += [because("order-unseeded").as_data(), because("epoch-restarted").as_data()]
    changed = (
        because("script-edited", name="train.py"),
        because("variable-changed", name="RATE", how="has a different value"),
        because("value-changed", name="values of x", was="a", now="b"),
    )
    meant = [each.as_data() for each in reversed(changed)]
    found = label_of([*killed(), *resumed(lost=lost, meant=meant)], 0)
    assert found.reasons[:3] == changed


def test_fit_with_an_edited_call_is_recognised_by_its_number():
    begun = [happened(1, "fit-started", "a-0", fit=1), happened(1, "attempt-ended", steps=412, saved=400)]
    meant = [because("value-changed", name="epochs", was="4", now="5").as_data()]

    def again(fit: int) -> list[Event]:
        resumed = happened(2, "resumed", "b-0", kind="exact", meant=meant, fit=fit)
        return [happened(2, "fit-started", "b-0", fit=fit), resumed]

    assert labels(begun, again(1)) == ("not-equal", ("epochs: 4 → 5",))
    reasons = labels(begun, again(2)).reasons
    assert reasons[0] == "epochs: 4 → 5", "causes stand first"
    assert "not reached again" in reasons[1]


@pytest.mark.parametrize(
    "told",
    [
        happened(1, "decided", action="finish", ending={"stopped": True}),
        happened(1, "decided", action="finish", ending={"interrupted": True}),
        happened(1, "interrupted", fit=0),
    ],
)
def test_script_that_finished_after_a_stop_request_is_not_exact(told: Event) -> None:
    found = labels(happened(1, "fit-started", fit=0), told)
    assert found == ("not-equal", ("the script was asked to stop, and may have trained less than it would have",))
    went_on = [happened(2, "fit-started", fit=0), happened(2, "decided", action="finish", ending={})]
    assert "asked to stop" not in str(labels(happened(1, "fit-started", fit=0), told, went_on).reasons)
    assert labels(happened(1, "fit-started", fit=0), told, code=75).label == "exact"


# -- attempts about which nothing is known ----------------------------------------------------------------------------

ENDED = happened(1, "attempt-ended", returncode=None, steps=0, saved=0)
"""The event that --resume writes for an attempt whose journal is gone."""
REASON = ("there is no record of an earlier attempt",)


@pytest.mark.parametrize("before", [[ENDED], [], [happened(3, "attempt-ended")]])
def test_training_after_an_attempt_without_a_journal_counts_as_started_over(before):
    attempt = max((event.attempt for event in before), default=1) + 1
    fit = [happened(attempt, "fit-started", guard="exact"), happened(attempt, "fit-finished")]
    assert labels(before, fit) == Labelled("started-over", REASON)


def test_fit_resumed_from_an_attempt_without_a_journal_is_unverified_at_best():
    assert labels(ENDED, resumed(), happened(2, "compared", **EQUAL)) == Labelled("unverified", REASON)
    between = labels(killed(), happened(2, "attempt-ended"), resumed(attempt=3), happened(3, "compared", **EQUAL))
    assert between == Labelled("unverified", REASON)
    lossy = labels(ENDED, resumed(), happened(2, "compared", **OTHER_DATA))
    assert lossy.label == "not-equal"


def test_verified_resume_is_unaffected_by_how_the_killed_attempt_ended():
    assert labels(killed(), resumed(), happened(2, "compared", **EQUAL)).label == "verified"


def test_changed_number_of_workers_is_never_equal_and_says_so_once_for_each_change():
    placed = [happened(n, "workers-placed", hosts=["a", "b"][:count]) for n, count in enumerate((2, 1, 1, 2), 1)]
    found = labels(happened(1, "fit-started", guard="exact"), *placed, happened(4, "fit-finished"))
    assert found == Labelled(
        "not-equal",
        ("the number of workers has changed: 2 → 1", "the number of workers has changed: 1 → 2"),
    )
