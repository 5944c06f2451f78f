"""map_batches with errors that look like TensorFlow's: what it yields, what it calls, what it passes through."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest
import tensorflow as tf

import oomph
from oomph.api import map_batches as module

TEXT = "OOM when allocating tensor with shape[8,8] and type float on /job:x/device:CPU:0 by allocator cpu_bfc"


def out_of_memory(text=TEXT):
    return tf.errors.ResourceExhaustedError(None, None, text)


class Fn:
    """Returns its samples if they are few enough; counts its calls and every sample that it processed completely."""

    def __init__(self, fits):
        self.fits, self.calls, self.seen = fits, [], []

    def __call__(self, batch):
        values = batch.numpy().tolist()
        self.calls.append(len(values))
        if len(values) > self.fits:
            raise out_of_memory()
        self.seen += values
        return values


def mapped(fn, dataset, batch_size):
    return [value for result in oomph.map_batches(fn, dataset, batch_size) for value in result]


@pytest.mark.parametrize(
    "fits", [1, 7, 100, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 3, 50, 99, 1000))]
)
@pytest.mark.parametrize("source", [list, iter, np.array, tf.data.Dataset.from_tensor_slices])
def test_every_sample_is_mapped_once_and_in_order_for_any_memory_limit(fits, source):
    fn = Fn(fits)
    assert mapped(fn, source(list(range(310))), 100) == list(range(310))
    assert fn.seen == list(range(310))
    assert sum(size > fits for size in fn.calls) <= 2


def test_batches_match_a_plain_loop_when_everything_fits(capfd):
    fn = Fn(1000)
    mapped(fn, range(250), 100)
    assert fn.calls == [100, 100, 50]
    assert capfd.readouterr().err == ""


def test_map_batches_reuses_the_size_it_found(capfd):
    fn = Fn(40)
    mapped(fn, range(1000), 100)
    kept = fn.calls[-4]
    assert 40 / 2 <= kept <= 40
    assert set(fn.calls[-4:-1]) == {kept}
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("oomph: ")]
    assert len(said) == sum(size > 40 for size in fn.calls) + 1
    goes_on = rf"oomph: recovered in \d+\.\d s: map_batches continues with up to {kept} elements"
    assert re.match(goes_on, said[-1])


def test_a_single_sample_that_does_not_fit_raises_the_users_error(capfd):
    def fn(batch):
        if 5 in batch.numpy():
            raise error
        return batch.numpy().tolist()

    error = out_of_memory()
    done = []
    with pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        done.extend(value for result in oomph.map_batches(fn, range(8), 4) for value in result)
    assert raised.value is error
    assert done == [0, 1, 2, 3, 4]
    assert "with element 5 alone" in capfd.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        MemoryError(),
        KeyboardInterrupt(),
        out_of_memory("a resource of another kind"),
        tf.errors.InternalError(None, None, "CUBLAS_STATUS_ALLOC_FAILED"),  # disguised, with plenty of memory left
    ],
)
def test_other_errors_are_raised_unchanged_and_immediately(error, capfd):
    calls = []

    def fn(batch):
        calls.append(batch.shape[0])
        raise error

    with pytest.raises(type(error)) as raised:
        list(oomph.map_batches(fn, range(10), 4))
    assert raised.value is error
    assert calls == [4]
    assert "oomph" not in capfd.readouterr().err


def test_a_dataset_error_is_raised_after_the_preceding_results():
    def elements():
        yield from range(4)
        raise OSError("unplugged")

    results = oomph.map_batches(lambda batch: batch.numpy().tolist(), elements(), 4)
    assert next(results) == [0, 1, 2, 3]
    with pytest.raises(OSError, match="unplugged"):
        next(results)


def test_map_batches_runs_only_the_batches_consumed():
    fn = Fn(100)
    results = oomph.map_batches(fn, iter(range(10**9)), 10)
    assert fn.calls == []
    next(results)
    results.close()
    assert fn.calls == [10]


def test_objects_of_a_failed_call_are_freed_before_the_next_call():
    class Big:
        pass

    held = []

    def inner(big):
        raise out_of_memory()

    def fn(batch):
        assert all(reference() is None for reference in held)
        if batch.shape[0] == 4:
            big = Big()
            big.itself = big
            held.append(weakref.ref(big))
            try:
                inner(big)
            except tf.errors.ResourceExhaustedError as error:
                raise out_of_memory() from error  # the first one is its cause, and has its own frames
        return 0

    gc.disable()
    try:
        assert len(list(oomph.map_batches(fn, range(4), 4))) > 1
    finally:
        gc.enable()
    assert held


def test_a_result_dropped_by_the_caller_is_freed_before_the_next_call():
    class Result:
        pass

    results = []

    def fn(batch):
        assert all(reference() is None for reference in results)
        if batch.shape[0] > 1:
            raise out_of_memory()
        result = Result()
        results.append(weakref.ref(result))
        return result

    iterator = oomph.map_batches(fn, range(4), 4)
    for _ in range(4):
        next(iterator)
    assert len(results) == 4


@pytest.mark.parametrize(
    ("size", "error"), [(0, ValueError), (-3, ValueError), (2.0, TypeError), ("4", TypeError), (True, TypeError)]
)
def test_invalid_batch_size_is_rejected_immediately(size, error):
    with pytest.raises(error, match="batch_size must be"):
        oomph.map_batches(print, [1], size)
    assert list(oomph.map_batches(lambda batch: 1, [1], np.int64(4))) == [1]


def test_noncallable_function_is_rejected_immediately():
    with pytest.raises(TypeError, match="fn must be callable, not int"):
        oomph.map_batches(3, [1], 4)
    with pytest.raises(ValueError, match="first dimension"):
        oomph.map_batches(print, (np.zeros(3), np.zeros(4)), 4)


def test_map_batches_is_public_without_importing_tensorflow():
    assert oomph.map_batches is module.map_batches
    code = "import sys, oomph; print('map_batches' in dir(oomph), 'tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True False\n"
