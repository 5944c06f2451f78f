"""Remedies for labels, and causes of labels that have no reasons."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.journal.journal import Event
from oomph.protocol.reason_table import EARLIER_SHUFFLE, SHUFFLE_OVER
from oomph.protocol.reasons import because
from oomph.run.report.causes import ReasonRemedy, causes, remedies
from oomph.run.report.labels import ORDER
from oomph.run.report.summary import improvement, summarise


@given(st.text(), st.sampled_from(ORDER))
def test_remedy_is_a_single_line_for_any_reason(reason, label):
    for remedy in remedies(label, [because("in-words", text=reason)]):
        assert remedy.text
        assert "\n" not in remedy.text.replace(reason, "")


@pytest.mark.parametrize("label", ORDER)
def test_each_improvable_label_has_a_remedy_even_without_a_reason(label):
    assert bool(remedies(label, ())) is (label not in ("exact", "verified"))


def test_reasons_with_the_same_remedy_are_listed_once():
    first, second = (because("object", where=f"callback Own.{name}", what="Strange") for name in ("counts", "other"))
    assert remedies("not-equal", [first, second]) == [ReasonRemedy(str(first), first.remedy)]


# -- causes of labels that have no reasons ------------------------------------------------------------------------------


def event(event: str, /, attempt: int = 1, **data: Any) -> Event:
    return Event.named(event, data, attempt=attempt)


def mends(label: str, *events: Event) -> str:
    return "\n".join(remedy.text for remedy in remedies(label, causes(label, events)))


def test_custom_loop_remedy_says_how_to_make_it_resumable():
    seen = event("loop-seen", site="train.py:42")
    for label in ("unguarded", "started-over"):
        assert "make the loop at train.py:42 resumable: `for batch in oomph.steps(dataset, epochs=..." in mends(
            label, seen
        )
    assert "oomph.steps" in mends("unguarded")
    assert "oomph doctor" in mends("unguarded", event("guard-failed", reason="no TensorFlowTrainer.fit"))


def test_remedy_depends_on_the_cause_of_a_missing_checkpoint():
    assert "--checkpoint-every" in mends("started-over")
    assert "free disk space" in mends("started-over", event("checkpoint-failed", reason="No space left on device"))
    anew = event("checkpoint-refused", name="", **because("recompiled").as_fields())
    assert "call compile() before fit" in mends("started-over", anew)
    gone = event("checkpoint-refused", name="", **because("checkpoints-gone", steps=9).as_fields())
    assert mends("started-over", gone).startswith("keep checkpoints/ in the run directory")
    assert "TerminateOnNaN" in mends(
        "started-over", event("checkpoint-skipped", **because("not-finite", name="dense/kernel").as_fields())
    )
    assert causes("started-over", [event("checkpoint", iterator="saved")]) == ()


def test_earlier_checkpoint_is_suggested_if_it_would_have_helped():
    def over(steps: int, saved: int = 0, **run: Any) -> list[Event]:
        ended = event("attempt-ended", returncode=-9, steps=steps, saved=saved)
        return [ended, event("run-started", attempt=2, **run), event("fit-started", attempt=2)]

    assert mends("started-over", *over(30)) == (
        "take the first checkpoint earlier: --checkpoint-every 15, a number of steps"
    )
    assert causes("started-over", over(1)) == (), "it ended after its first step"
    assert causes("started-over", over(30, saved=20)) == (), "there was one"
    assert mends("started-over", *over(30, saved=20, start_over=True)).startswith("leave --start-over out")
    assert "--start-over" not in mends("started-over", *over(30, start_over=True)), "there was nothing to resume from"


def test_run_that_had_to_start_over_gets_no_advice():
    begun = [event("fit-started", fit=0), event("attempt-ended", returncode=-9, steps=1)]
    again = [event("fit-started", attempt=2, fit=0), event("attempt-ended", attempt=2, steps=9, saved=9)]
    summary = summarise([*begun, *again], 0)
    assert (summary.exactness, improvement(summary)) == ("started-over", "")


def not_saved(why: str, kind: str = "", name: str = "step-9") -> Event:
    reason = because("position-not-saved", why=why, kind=kind)
    return event("checkpoint", name=name, iterator=why, why=reason.as_data())


def test_cause_of_replayed_batches_is_reported_with_its_remedy():
    kept = [event("checkpoint", iterator="saved"), not_saved("the shuffle of this epoch is over", SHUFFLE_OVER)]
    assert causes("replayed", kept) == ()
    generator = not_saved("PyFunc is stateful")
    assert [*map(str, causes("replayed", [*kept, generator]))] == [
        "the position in the data cannot be saved: PyFunc is stateful"
    ]
    assert "tf.data.Dataset of TensorFlow's own operations" in mends("replayed", generator)


def test_finished_shuffle_is_the_cause_only_if_its_checkpoint_was_used():
    cached = not_saved("cache() keeps the order of a shuffle that is over", EARLIER_SHUFFLE)
    assert mends("replayed", cached).startswith("let only one shuffle() draw a new order for each epoch, after cache()")
    over, used = not_saved("the shuffle of this epoch is over", SHUFFLE_OVER), {"kind": "replayed", "name": "step-9"}
    assert mends("replayed", over, event("resumed", **used)).startswith("nothing to change in the script")
    assert causes("replayed", [over, event("resumed", **used | {"name": "step-12"})]) == ()
    for remedy in (mends("replayed"), mends("replayed", over), mends("replayed", cached)):
        assert "Python" not in remedy


def test_remedy_depends_on_the_cause_of_giving_up():
    reason = because("another-training", what="fit", differences="values of x: a → b")
    refused = event("gave-up", fault="checkpoint-failure", **reason.as_fields())
    assert "keras.utils.set_random_seed(1)" in mends("failed", refused)
    assert "oomph explain" in mends("failed")
