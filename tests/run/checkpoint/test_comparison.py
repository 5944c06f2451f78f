"""The steps of resumed training compared with earlier witnesses of the same steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oomph.checkpoint.witness import END, EPOCH, STEP, Comparison, Witness

KEY = 7


def step(number: int, epoch: int = 0, **facts) -> Witness:
    return Witness(KEY, STEP, epoch, number, **{"batch": 100 + number, "result": 200 + number, "loss": 1.0, **facts})


def end_of(epoch: int, kind: int = EPOCH, result: int = 9) -> Witness:
    return Witness(KEY, kind, epoch, 4, result=result)


BEFORE = [*(step(n) for n in range(4)), end_of(0), *(step(n, 1) for n in range(4)), end_of(1), end_of(1, END)]


def seen(*now: Witness, before=BEFORE, at=(0, 0), noise=0.0) -> Comparison:
    """Return the comparison after these witnesses; the noise is measured one step after it is requested."""
    comparison = Comparison(before, KEY, *at)
    for each in now:
        if comparison.is_in_doubt:
            comparison.settle(noise)
        comparison.see(each)
    if comparison.is_in_doubt:
        comparison.settle(noise)
    return comparison


def test_equal_steps_and_epochs_are_counted():
    found = seen(*BEFORE)
    assert (found.steps, found.epochs, found.difference, found.pending, found.noise) == (8, 3, None, False, 0.0)


def test_comparison_does_not_wait_for_steps_before_the_checkpoint():
    found = seen(at=(1, 2))
    assert found.awaits(STEP, 1, 2)
    assert not found.awaits(STEP, 1, 1)
    assert not found.awaits(STEP, 0, 3)
    assert not found.see(step(1, 1))
    assert found.see(step(2, 1))
    assert found.steps == 1


def test_steps_without_an_earlier_witness_prove_nothing():
    found = seen(step(4, 1), step(0, 2))
    assert (found.steps, found.pending, found.difference) == (0, True, None)
    assert not seen(before=[]).pending


def test_witnesses_from_another_fit_are_not_compared():
    found = seen(step(0)._replace(key=8), before=[step(0)._replace(key=8)])
    assert (found.pending, found.steps) == (False, 0)


def test_last_witness_of_a_repeated_step_is_compared():
    before = [step(0, result=1), step(0, result=2)]
    assert seen(step(0, result=2), before=before).steps == 1
    assert seen(step(0, result=1), before=before).difference is not None


def test_empty_witness_proves_nothing():
    found = seen(step(0), before=[step(0, batch=0, result=0)])
    assert (found.steps, found.difference) == (0, None)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"batch": 1}, "the data or its order changed, from epoch 2, step 3 on"),
        ({"result": 1}, "the same batch gives a different result, from epoch 2, step 3 on"),
        (
            {"result": 1, "loss": 2.0},
            "the same batch gives a different result (loss 2, was 1), from epoch 2, step 3 on",
        ),
        ({"result": 1, "rate": 0.5}, "the learning rate is 0.5 instead of 0.25, from epoch 2, step 3 on"),
        ({"result": 1, "random": 5}, "the random numbers differ, from epoch 2, step 3 on"),
        (
            {"batch": 1, "result": 1, "rate": 0.5},
            "the data or its order changed, from epoch 2, step 3 on",
        ),
        ({"result": 1, "rate": 0.5, "random": 5}, "the learning rate is 0.5 instead of 0.25, from epoch 2, step 3 on"),
    ],
)
def test_difference_is_described_by_its_first_cause_and_step(facts, words):
    before = [step(2, 1, rate=0.25, random=4)]
    found = seen(step(2, 1, **{"rate": 0.25, "random": 4, **facts}), before=before)
    assert str(found.difference) == words


def test_different_rate_or_random_numbers_are_ignored_while_results_are_equal():
    before = [step(0, rate=0.25, random=4)]
    found = seen(step(0, rate=0.5, random=5), before=before)
    assert (found.steps, found.difference) == (1, None)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(EPOCH, "the state differs after epoch 2"), (END, "the final state differs after epoch 2")],
)
def test_differing_state_is_reported_with_its_epoch(kind, words):
    assert str(seen(end_of(1, kind, result=1)).difference) == words


def test_comparison_stops_at_the_first_difference():
    found = seen(step(0, result=1), step(1), step(2, batch=1))
    assert found.difference is not None
    assert (found.difference.value("step"), found.steps, found.pending) == (1, 0, False)


def test_digest_present_on_only_one_side_is_not_compared():
    assert seen(step(0, batch=0)).steps == 1
    without = seen(step(0, result=0))
    assert (without.steps, without.difference) == (0, None), "the batch alone says nothing of the state"


# -- noise ------------------------------------------------------------------------------------------------------------


def test_difference_within_the_measured_noise_counts_as_equal():
    found = seen(step(0, result=1, loss=1 + 1e-7), noise=1e-7)
    assert (found.steps, found.difference, found.noise) == (1, None, 1e-7)


def test_accumulated_noise_does_not_excuse_a_larger_difference():
    before = [step(n) for n in range(5)]
    drifting = [step(n, result=1, loss=1 + 9e-7 * (n + 1)) for n in range(5)]
    assert seen(*drifting, before=before, noise=1e-7).steps == 5
    assert seen(step(0, result=1, loss=1 + 2e-6), before=before, noise=1e-7).difference is not None


def test_training_without_noise_tolerates_no_difference():
    assert seen(step(0, result=1, loss=1 + 1e-12), noise=0.0).difference is not None


def test_clearly_different_loss_is_never_noise():
    comparison = Comparison(BEFORE, KEY, 0, 0)
    comparison.see(step(0, result=1, loss=1.02))
    assert comparison.difference is not None
    assert not comparison.is_in_doubt, "and is not worth measuring"


def test_noise_is_measured_once_and_only_when_something_differs():
    comparison = Comparison(BEFORE, KEY, 0, 0)
    comparison.see(step(0))
    assert not comparison.is_in_doubt
    comparison.see(step(1, result=1, loss=1 + 1e-7))
    comparison.see(step(2))
    assert (comparison.is_in_doubt, comparison.pending, comparison.steps) == (True, True, 1)
    comparison.settle(1e-6)
    assert (comparison.is_in_doubt, comparison.steps) == (False, 3), "what came meanwhile has waited"
    comparison.see(step(3, result=1, loss=1 + 1e-7))
    assert (comparison.is_in_doubt, comparison.steps) == (False, 4)


def test_state_bits_are_not_compared_if_steps_are_noisy():
    found = seen(step(0, result=1, loss=1 + 1e-7), end_of(0, result=1), noise=1e-6)
    assert found.difference is None
    assert found.epochs == 0
    unseen = seen(end_of(0, result=1), noise=1e-6)
    assert (unseen.difference, unseen.epochs) == (None, 0), "noise need not show in a loss"
    assert seen(end_of(0, result=1), noise=0.0).difference is not None


def test_different_data_is_never_noise():
    assert seen(step(0, batch=1), noise=1.0).difference is not None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=12), st.integers(0, 1), st.integers(0, 4))
def test_equal_witnesses_never_differ_and_are_counted_once(places, epoch, number):
    witnesses = [step(n, e) for e, n in places]
    found = seen(*witnesses, *witnesses, before=witnesses, at=(epoch, number))
    assert found.difference is None
    assert found.steps == len({(e, n) for e, n in places if (e, n) >= (epoch, number)})
    assert not found.pending


def reaching(*places: tuple[int, int], at=(0, 0)) -> Comparison:
    """Return the comparison after steps at these positions, which left no witness."""
    comparison = Comparison(BEFORE, KEY, *at)
    for epoch, number in places:
        comparison.reached(epoch, number)
    return comparison


def test_shorter_epoch_than_before_indicates_changed_data():
    shorter = reaching((0, 0), (0, 1), (1, 0))
    assert str(shorter.difference) == "the data or its order changed, from epoch 1, step 3 on"
    in_the_last = reaching((1, 0), (1, 1), at=(1, 0))
    in_the_last.ended(1, 2)
    assert str(in_the_last.difference) == "the data or its order changed, from epoch 2, step 3 on"


def test_longer_epoch_than_before_indicates_changed_data():
    longer = reaching(*((0, number) for number in range(5)))
    assert str(longer.difference) == "the data or its order changed, from epoch 1, step 5 on"


def test_epoch_of_the_same_length_shows_no_difference():
    same = reaching(*((0, number) for number in range(4)), *((1, number) for number in range(4)))
    same.ended(1, 4)
    assert same.difference is None
