"""`oomph.steps`: the loop that it replaces, what it rejects, and the parts of a resumed loop."""

from __future__ import annotations

import linecache
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

import oomph
from oomph.checkpoint.manifest import Meta
from oomph.errors import CheckpointError
from oomph.keras_bridge import stateful_random_ops
from oomph.resume.loop import running
from oomph.resume.loop.data import Digests, digest_of
from oomph.resume.loop.names import CarriedNames, _names
from oomph.resume.loop.state import LoopObjects, LoopVariables, roots_of
from oomph.resume.training.identity import Verdict

# -- the loop ---------------------------------------------------------------------------------------------------------


def places(steps):
    return [(batch, steps.epoch, steps.step, steps.steps, steps.ends_epoch) for batch in steps]


TWO_EPOCHS = [("a", 0, 0, 0, False), ("b", 0, 1, 1, True), ("a", 1, 0, 2, False), ("b", 1, 1, 3, True)]


@pytest.mark.parametrize(
    "dataset", ["ab", ("a", "b"), lambda: iter("ab"), lambda: ["a", "b"]], ids=["text", "tuple", "iterators", "lists"]
)
def test_steps_yields_the_plain_loops_batches_with_positions(dataset):
    dataset = list(dataset) if isinstance(dataset, str) else dataset
    assert places(oomph.steps(dataset, 2, state=[[]])) == TWO_EPOCHS


def test_epochs_may_be_a_range_zero_or_none():
    assert [epoch for _, epoch, *_ in places(oomph.steps(["a"], range(3, 6), state=[[]]))] == [3, 4, 5]
    assert list(oomph.steps(["a"], 0, state=[[]])) == []
    assert list(oomph.steps(iter("ab"), None, state=[[]])) == ["a", "b"]
    steps = oomph.steps(["a", "b"], None, state=[[]])
    for _ in steps:
        if steps.steps == 6:
            break
    assert (steps.epoch, steps.step) == (3, 0)


def test_loop_may_be_run_more_than_once():
    steps = oomph.steps(["a", "b"], 2, state=[[]])
    assert places(steps) == places(steps) == TWO_EPOCHS


def test_end_of_a_tf_dataset_is_known_without_reading_ahead():
    taken = []
    dataset = tf.data.Dataset.range(4).batch(2)
    steps = oomph.steps(dataset, state=[[]])
    for _ in steps:
        taken.append((steps.drawn, steps.ends_epoch))
    assert taken == [(1, False), (2, True)]


def test_data_without_a_length_is_read_ahead_only_for_ends_epoch():
    made = []

    def source():
        for number in range(3):
            made.append(number)
            yield number

    for number in oomph.steps(source, state=[[]]):
        assert made == list(range(number + 1))
    made.clear()
    steps = oomph.steps(source, state=[[]])
    for number in steps:
        assert steps.ends_epoch is (number == 2)
        assert made == list(range(min(number + 2, 3)))


def test_on_epoch_end_of_a_py_dataset_is_called():
    class Told(keras.utils.PyDataset):
        def __init__(self):
            super().__init__()
            self.epochs = []

        def __len__(self):
            return 2

        def __getitem__(self, number):
            return number, len(self.epochs)

        def on_epoch_end(self):
            self.epochs.append("over")

    steps = oomph.steps(Told(), 2, state=[[]])
    assert [(*batch, steps.ends_epoch) for batch in steps] == [(0, 0, False), (1, 0, True), (0, 1, False), (1, 1, True)]


def test_errors_in_the_data_and_the_loop_body_reach_the_script_unchanged():
    def broken():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(oomph.steps(broken, state=[[]]))
    with pytest.raises(ZeroDivisionError):
        [1 / number for number in oomph.steps([0], state=[[]])]


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ValueError, "must not be negative: -1", ([1], -1)),
        (TypeError, "whole number, a range or None, not 1.5", ([1], 1.5)),
        (TypeError, "whole number, a range or None, not True", ([1], True)),
        (TypeError, "int, which cannot be iterated over", (3,)),
        (TypeError, "dataset is a str", ("abc",)),
        (TypeError, "dataset is a dict", ({"x": 1},)),
        (ValueError, "can be iterated only once, but epochs is 2", (iter([1]), 2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_arguments_are_rejected_immediately(error, match, arguments):
    with pytest.raises(error, match=match):
        oomph.steps(*arguments, state=[[]])


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (None, "state=None: list the objects that the loop changes"),
        ([], "state is empty"),
        ({}, "state is empty"),
        ([[], 3.5], r"state\[1\] \(float\) cannot be changed in place"),
        ({"w": tf.constant(1)}, r"state\['w'\] \(EagerTensor\) cannot be changed in place"),
        ([np.random], r"state\[0\] \(module\) cannot be saved"),
        ([iter([1])], r"state\[0\] \(list_iterator\) cannot be saved"),
        (7, r"state \(int\) cannot be changed in place"),
    ],
    ids=["None", "list", "dict", "float", "tensor", "module", "iterator", "int"],
)
def test_state_that_cannot_be_saved_is_rejected_by_name(state, match):
    with pytest.raises((TypeError, ValueError), match=match):
        oomph.steps([1], state=state)


def test_steps_does_not_import_tensorflow():
    code = (
        "import sys, oomph\nassert list(oomph.steps([1, 2], 2, state=[[]])) == [1, 2, 1, 2]\n"
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- what the state is made of ----------------------------------------------------------------------------------------


def test_state_roots_are_named_as_in_the_call():
    model = keras.Sequential([keras.layers.Dense(1)])
    assert [str(root) for root in roots_of([model, {}])] == ["state[0] (Sequential)", "state[1] (dict)"]
    assert [str(root) for root in roots_of({"net": model})] == ["state['net'] (Sequential)"]
    assert [str(root) for root in roots_of({"best": 0.5, "seen": []})] == ["state (dict)"], "state itself, and no names"
    saver = tf.train.Checkpoint(net=model, count=tf.Variable(0))
    assert [root.name for root in roots_of(saver)] == ["state.count", "state.net"]


class Telling:
    """Reports its own state."""

    def __init__(self, value):
        self.value, self.lock = value, __import__("threading").Lock()

    def get_state(self):
        return {"value": self.value, "array": np.arange(3) * self.value}

    def set_state(self, state):
        self.value = state["value"]
        assert (state["array"] == np.arange(3) * self.value).all()


def test_objects_that_report_their_state_have_it_restored():
    def objects(*values):
        roots = roots_of([Telling(value) for value in values])
        return roots, LoopObjects(roots, LoopVariables([]), None, [])

    _, ours = objects(2, 5)
    states, arrays, lost = ours.told()
    assert lost == []
    roots, theirs = objects(0, 0)
    assert theirs.tell(states, {array.name.removeprefix("own/"): array.value for array in arrays}) == []
    assert [root.thing.value for root in roots] == [2, 5]
    assert str(theirs.tell({}, {})[0]).startswith("state[0] (Telling), which was not saved")


class Two(keras.Model):
    """Takes two arguments, so Keras cannot build it on its own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = keras.layers.Dense(3), keras.layers.Dense(2)

    def call(self, x, y):
        return self.b(self.a(x) + y)


def variables_of(*things):
    return LoopVariables([(f"state[{number}]", thing) for number, thing in enumerate(things)])


@pytest.mark.parametrize(
    ("make", "call"),
    [
        (Two, lambda model: model(tf.ones([4, 5]), tf.ones([4, 3]))),
        (
            lambda: keras.Sequential([keras.layers.Dense(3), keras.layers.BatchNormalization()]),
            lambda m: m(tf.ones([2, 2])),
        ),
        (lambda: keras.layers.GRU(4), lambda layer: layer(tf.ones([2, 3, 2]))),
    ],
    ids=["two arguments", "Sequential", "layer"],
)
def test_variables_created_in_the_first_step_are_created_before_being_restored(make, call):
    model, optimizer = make(), keras.optimizers.Adam()
    ours = variables_of(model, optimizer)
    call(model)
    optimizer.build(model.trainable_variables)
    ours.look_again()
    made_by = ours.made_by()
    fresh, other = make(), keras.optimizers.Adam()
    theirs = variables_of(fresh, other)
    theirs.make_as_before(made_by)
    shapes = [[(name, slot.read().shape, slot.dtype) for name, slot in each.named] for each in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert theirs.keys == ours.keys
    assert len(other.variables) == len(optimizer.variables)
    assert theirs.finite == ours.finite != frozenset()


def test_variables_that_cannot_be_recreated_are_reported_by_name():
    class Late(tf.Module):
        pass

    ours, late = Late(), Late()
    found = variables_of(ours)
    ours.w = tf.Variable(1.0)
    found.look_again()
    with pytest.raises(CheckpointError, match=r"state\[0\]\.w does not exist yet"):
        variables_of(late).make_as_before(found.made_by())
    late.v = tf.Variable(1.0)
    with pytest.raises(CheckpointError, match=r"it does not contain state\[0\]\.v"):
        variables_of(late).make_as_before(variables_of(Late()).made_by())


def test_infinite_best_value_is_not_mistaken_for_a_broken_weight():
    best = tf.Variable(float("inf"))
    assert variables_of(best).finite == frozenset()


# -- batches ----------------------------------------------------------------------------------------------------------


def test_batch_digest_covers_everything_in_the_batch():
    batch = {"x": np.arange(4.0), "y": tf.constant([1, 2]), "name": ["a", "b"], "n": 3}
    same = {"x": np.arange(4.0), "y": tf.constant([1, 2]), "name": ["a", "b"], "n": 3}
    assert digest_of(batch) == digest_of(same) != 0
    others = [{**batch, "x": -np.arange(4.0)}, {**batch, "y": tf.constant([2, 1])}, {**batch, "name": ["b", "a"]}]
    assert len({digest_of(each) for each in (batch, *others)}) == 4
    assert digest_of(tf.ragged.constant([[1], [2, 3]])) != digest_of(tf.ragged.constant([[1, 2], [3]]))
    digest_of(object())


def test_digests_exceeding_their_time_share_are_skipped_unless_requested():
    digests = Digests(share=1e-9)
    assert digests.of(np.ones(3), wanted=True)
    assert digests.of(np.ones(3), wanted=False) == 0
    assert digests.of(np.ones(3), wanted=True)


# -- what else the loop carries over ----------------------------------------------------------------------------------


def carried(body, tmp_path):
    path = tmp_path / "loop.py"
    path.write_text("for batch in steps:\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    return sorted(_names(str(path), 1)[0])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("step += 1", ["step"]),
        ("loss = f(batch)\nif loss < best:\n    best = loss", ["best"]),
        ("loss = f(batch)\nprint(loss)", []),
        ("if batch:\n    rate = 1\nelse:\n    rate = 2\nprint(rate)", []),
        ("if batch:\n    rate = 1\nprint(rate)", ["rate"]),
        ("total, n = total + 1, n + 1", ["n", "total"]),
        ("for each in batch:\n    last = each\nprint(last)", ["last"]),
        ("with tape() as t:\n    loss = f(t)\nprint(loss)", []),
        ("history.append(batch)\nd['x'] = 3", []),
    ],
    ids=str,
)
def test_loop_names_read_before_assignment_count_as_carried_over(body, names, tmp_path):
    assert carried(body, tmp_path) == names


def test_only_changed_carried_names_are_reported():
    import time

    step, best, seen, kept, began = 0, None, [], {}, time.time()
    here = sys._getframe().f_code
    frame = SimpleNamespace(f_code=here, f_lineno=LOOP, f_locals=dict(locals()), f_globals={})
    found = CarriedNames(frame, {id(kept)})
    for number in range(3):
        step += number
        best = number if best is None else best
        seen.append(number)
        kept[number] = began
        began = time.time()
    found._frame = SimpleNamespace(f_locals=dict(locals()), f_globals={})
    assert found.changed() == ["best", "seen", "step"]


LOOP = test_only_changed_carried_names_are_reported.__code__.co_firstlineno + 7

_THROUGH_OTHERS = """
class Averages:
    def __init__(self):
        self.seen = []

count, untouched, averages, quiet, known = 0, 0, Averages(), Averages(), Averages()

def bump():
    global count
    count += 1

def begun():
    found.append(CarriedNames(sys._getframe(1), {id(known)}))
    return range(3)

found = []

def run():
    for number in begun():
        bump()
        averages.seen.append(untouched)
        known.seen.append(quiet.seen)
    return found[0].changed()
"""


def test_user_objects_and_globals_assigned_by_functions_are_reported(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(_THROUGH_OTHERS)
    names = {"sys": sys, "CarriedNames": CarriedNames, "__name__": "__main__"}
    exec(compile(_THROUGH_OTHERS, str(path), "exec"), names)
    linecache.checkcache(str(path))
    assert names["run"]() == ["averages", "count"]


def test_functions_using_random_kernels_with_hidden_counters_are_reported():
    @tf.function
    def noisy():
        return tf.random.normal([2])

    @tf.function
    def quiet():
        return tf.random.stateless_normal([2], [1, 2])

    noisy(), quiet()
    assert [*map(str, stateful_random_ops.functions_with_draws([noisy, quiet]))] == [
        "random numbers whose state is inside TensorFlow's kernels, in noisy"
    ]


# -- how a loop is identified -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "another_path", "verdict"),
    [
        ({}, False, Verdict.RESUME),
        ({"configuration": {"epochs": "range(0, 9)"}}, False, Verdict.RESUME),
        ({"turn": {"fold": "2"}}, False, Verdict.TRAIN),
        ({"data": {"batches in an epoch": 7}}, False, Verdict.TRAIN),
        ({"script": {"train.py": "b"}, "data": {"batches in an epoch": 7}}, False, Verdict.RESUME),
        ({"structure": {"weights of state[0]": "float32[4]"}}, False, Verdict.REFUSE),
        ({"structure": {"weights of state[0]": "float32[4]"}}, True, Verdict.TRAIN),
    ],
    ids=str,
)
def test_recorded_loop_is_recognised_only_by_matching_facts(change, another_path, verdict):
    before = {
        "script": {"train.py": "a"},
        "structure": {"weights of state[0]": "float32[3]"},
        "configuration": {"epochs": "range(0, 3)"},
        "turn": {"fold": "1"},
        "data": {"batches in an epoch": 5},
    }
    record = SimpleNamespace(meta=Meta(made_by=before), finished=False)
    now = {group: {**facts, **change.get(group, {})} for group, facts in before.items()}
    assert running.recognised(record, now, another_path).verdict is verdict
    assert running.recognised(None, now, another_path).verdict is Verdict.TRAIN
