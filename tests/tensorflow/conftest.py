"""TensorFlow, imported once for all tests in this folder, quietly and without a GPU."""

from __future__ import annotations

import importlib.util
import os
import warnings

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]

if not collect_ignore_glob:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings that TensorFlow and its dependencies cause in each other
        import keras
        import numpy
        import tensorflow

    from oomph.exact_step.step.full_batch_step import FullBatchStep


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(0)


@pytest.fixture
def small_model():
    """Return a compiled and built model."""

    def make(*layers, optimizer="adam", loss="mse", **compiled):
        model = keras.Sequential([keras.Input((4,)), *(layers or [keras.layers.Dense(3)]), keras.layers.Dense(2)])
        model.compile(optimizer, loss, **{"jit_compile": False, **compiled})
        return model

    return make


@pytest.fixture
def float64():
    """Make Keras compute in float64 during the test, so that any difference beyond rounding shows."""
    before = keras.backend.floatx()
    keras.backend.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.backend.set_floatx(before)
    keras.config.set_dtype_policy(before)


class Guarded:
    """A model whose step is to be split into parts."""

    def __init__(self, model, batch, step=None, trains=True):
        from oomph.exact_step.micro_batch.gradient_accumulation import AccumulatedStep
        from oomph.exact_step.micro_batch.micro_batch_step import MicroBatchStep
        from oomph.exact_step.step.full_batch_step import FullBatchStep

        self.model = model
        self.batch = tensorflow.nest.map_structure(tensorflow.constant, batch)
        self.size = int(tensorflow.nest.flatten(self.batch)[0].shape[0])
        self.step = step or model.train_step
        self.whole = FullBatchStep(model, self.step, trains)
        self.whole.prepare(iter(tensorflow.data.Dataset.from_tensors(self.batch)))
        self.small = self.whole.state_of(self.batch)
        self.divided = AccumulatedStep(model, MicroBatchStep(model, self.step, trains), self.whole.commits)

    def take(self, sizes, commit=True):
        """Run the batch in parts of these sizes; return the logs."""
        assert sum(sizes) == self.size
        self.divided.start(self.batch, self.size, self.small)
        for start, size in zip(numpy.cumsum([0, *sizes]), sizes, strict=False):
            self.divided.add(int(start), size)
        own = self.divided.finish(self.whole.knows_size())
        logs = self.divided.commit(own) if commit else own[0]
        return {name: float(value) for name, value in logs.items()}

    def find(self):
        """Return what a probe finds."""
        from oomph.exact_step.step import division

        return division.find(self.model, self.divided, self.step, self.batch, self.size, self.small)


@pytest.fixture
def guarded():
    """Return a divided step, from a model and a batch."""
    return Guarded


def everything(model):
    """Return every variable that a step may change, by its path."""
    optimizers = [v for v in vars(model).values() if isinstance(v, keras.optimizers.Optimizer)]
    variables = [*model.variables, *model.metrics_variables, *(v for o in optimizers for v in o.variables)]
    return [(variable.path, variable.numpy().copy()) for variable in variables]


@pytest.fixture
def as_keras(guarded):
    """Compare two steps run in parts with two steps by Keras: every variable, and the logs."""

    def compare(make, batch, sizes, probe=False, rtol=1e-11):
        keras.utils.set_random_seed(0)
        plain = make()
        keras.utils.set_random_seed(0)
        ours = guarded(make(), batch)
        plain.make_train_function()
        if probe:  # settles what can only be found out by running the step
            assert ours.find().equal, ours.find()
        for _ in range(2):
            theirs = plain.train_function(iter(tensorflow.data.Dataset.from_tensors(ours.batch)))
            logs = ours.take(sizes)
        assert logs == pytest.approx({name: float(value) for name, value in theirs.items()}, rel=rtol)
        for (name, expected), (_, value) in zip(everything(plain), everything(ours.model), strict=True):
            numpy.testing.assert_allclose(value, expected, rtol, 1e-13, err_msg=name)
        return ours

    return compare


class Memory:
    """Room for a number of samples; beyond it, a `Needs` layer fails as TensorFlow does without memory."""

    TEXT = "OOM when allocating tensor with shape[8,8] and type float on /job:x/device:CPU:0 by allocator cpu_bfc"

    def __init__(self):
        self.room, self.seen, self.fail_at = 10**9, [], None

    def take(self, samples):
        self.seen.append(int(samples))
        if samples > self.room or len(self.seen) == self.fail_at:
            raise MemoryError(self.TEXT)
        return numpy.int32(0)

    def take_eagerly(self, samples):
        try:
            self.take(samples)
        except MemoryError as error:
            raise tensorflow.errors.ResourceExhaustedError(None, None, str(error)) from None


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.setattr(FullBatchStep, "_is_limited", lambda step: True)
    return Memory()


@pytest.fixture
def needs(memory):
    """A layer whose backward pass runs out of memory if it is given too many samples."""

    class Needs(keras.layers.Layer):
        def call(self, x):
            @tensorflow.custom_gradient
            def taking(x):
                def backward(upstream):
                    if tensorflow.executing_eagerly():
                        memory.take_eagerly(x.shape[0])
                        return tensorflow.identity(upstream)
                    taken = tensorflow.numpy_function(memory.take, [tensorflow.shape(x)[0]], tensorflow.int32)
                    with tensorflow.control_dependencies([taken]):
                        return tensorflow.identity(upstream)

                return tensorflow.identity(x), backward

            return taking(x)

    return Needs


class Watch:
    """Records what a guarded step reports."""

    compares_batches = True

    def __init__(self):
        self.failures, self.recoveries, self.verdicts, self.broken, self.steps = [], [], [], [], 0
        self.failed_probes = []
        self.suggested = None

    def before_step(self, step, iterator):
        pass

    def after_step(self):
        self.steps += 1

    def failed(self, failure):
        self.failures.append((failure.phase, failure.batch, failure.micro_batch))

    def recovered(self, recovery):
        self.recoveries.append((recovery.batch, recovery.micro_batch))

    def probe_failed(self, failed):
        self.failed_probes.append(failed.samples)

    def probed(self, promise, finding):
        self.verdicts.append(str(promise))

    def not_recoverable(self, error, phase, reason, begin):
        self.suggested = begin
        raise RuntimeError(f"{phase}: {reason}") from error

    def guard_broken(self, error):
        self.broken.append(error)


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def guard(watch):
    """Install a guarded step in place of Keras' own."""

    from oomph.exact_step.micro_batch.exactness import promise_before_tracing
    from oomph.exact_step.step.division import Choice
    from oomph.exact_step.step.guarded_step import GuardedStep

    def put(model, *accepted):
        model.make_train_function()
        promise = promise_before_tracing(model)
        plain = model.train_function
        model.train_function = GuardedStep(model, model.train_step, plain, lambda: watch, promise, Choice(*accepted))
        return model.train_function

    return put


@pytest.fixture
def guard_evaluation(watch):
    """Install a guarded step in place of Keras' own for evaluation."""

    from oomph.exact_step.micro_batch.exactness import promise_before_tracing
    from oomph.exact_step.step.division import Choice
    from oomph.exact_step.step.guarded_step import GuardedStep

    def put(model):
        model.make_test_function()
        promise, plain = promise_before_tracing(model), model.test_function
        model.test_function = GuardedStep(model, model.test_step, plain, lambda: watch, promise, Choice(), trains=False)
        return model.test_function

    return put
