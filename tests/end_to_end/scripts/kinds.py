"""Every kind of training that micro-batches have to get right, each on a hundred samples in float64.

`kinds.py OUT.npz [--jit | --mirrored]`; the latter on two replicas.
"""

import contextlib
import sys

import keras
import numpy as np
import tensorflow as tf

OUT, JIT, MIRRORED = sys.argv[1], "--jit" in sys.argv, "--mirrored" in sys.argv
if MIRRORED:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
ACCUMULATE = None if MIRRORED else 2  # Keras cannot do both: "`merge_call` called while defining a new graph"
keras.config.set_floatx("float64")
L, losses, metrics = keras.layers, keras.losses, keras.metrics
rng = np.random.default_rng(7)
N = 100
X, Y = rng.normal(size=(N, 12)), rng.normal(size=(N, 3))
WEIGHTS = rng.uniform(0.1, 2, N)
WORDS = rng.integers(1, 20, (N, 7)) * (np.arange(7) < rng.integers(2, 8, (N, 1)))
TAGS = rng.normal(size=(N, 7, 3))


def dense(*extra):
    return keras.Sequential([keras.Input((12,)), L.Dense(16, "tanh"), *extra, L.Dense(3)])


def trained(model, x=X, y=Y, loss="mse", optimizer=None, fit=None, **options):
    options = {"metrics": ["mae"], "jit_compile": JIT, **options}
    if options.get("run_eagerly"):
        del options["jit_compile"]
    model.compile(optimizer or keras.optimizers.Adam(0.01), loss, **options)
    history = model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0, **(fit or {}))
    return model, history.history


def reduced(reduction, **fit):
    return lambda: trained(dense(), loss=losses.MeanSquaredError(reduction=reduction), fit=fit)


def tagger():
    words = [keras.Input((7,), dtype="int32"), L.Embedding(20, 8, mask_zero=True)]
    return keras.Sequential([*words, L.LSTM(8, return_sequences=True), L.Dense(3)])


def masked(reduction):
    return lambda: trained(tagger(), WORDS, TAGS, losses.MeanSquaredError(reduction=reduction))


def two_outputs():
    inputs = keras.Input((12,))
    hidden = L.Dense(
        16, "relu", activity_regularizer=keras.regularizers.L2(0.01), kernel_regularizer=keras.regularizers.L2(0.01)
    )(inputs)
    model = keras.Model(inputs, [L.Dense(3, name="a")(hidden), L.Dense(3, name="b")(hidden)])
    return trained(
        model,
        y={"a": Y, "b": 2 * Y},
        loss={"a": "mse", "b": losses.MeanAbsoluteError(reduction="sum")},
        loss_weights={"a": 1.0, "b": 0.1},
        metrics={"a": ["mae"], "b": ["mse"]},
    )


class Penalty(L.Layer):
    def call(self, inputs):
        self.add_loss(0.01 * tf.reduce_sum(inputs**2))
        self.add_loss(0.1 * tf.reduce_mean(inputs))
        return inputs


class Steps(L.Layer):
    def build(self, shape):
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        if training:
            self.steps.assign_add(1)
        return inputs * (1 - 0.8**self.steps)


class Largest(metrics.Metric):
    """The mean over batches of the largest output, which does not add up over samples."""

    def __init__(self):
        super().__init__(name="largest")
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(tf.reduce_max(y_pred))
        self.count.assign_add(1)

    def result(self):
        return self.total / self.count


def sum_of_squares(y, p):
    return tf.reduce_sum((y - p) ** 2)


def mean_of_squares(y, p):
    return tf.reduce_mean((y - p) ** 2)


def in_batch_negatives(y, p):
    scores = tf.matmul(p, y, transpose_b=True)
    return keras.ops.sparse_categorical_crossentropy(tf.range(tf.shape(scores)[0]), scores, from_logits=True)


class OwnStep(keras.Model):
    """A train step that follows the pattern in Keras' guide."""

    reduce = staticmethod(tf.reduce_mean)

    def __init__(self):
        super().__init__()
        self.net, self.seen = dense(L.Dropout(0.3)), metrics.Mean(name="loss")
        self.error = metrics.MeanAbsoluteError(name="mae")

    def call(self, x, training=False):
        return self.net(x, training=training)

    @property
    def metrics(self):
        return [self.seen, self.error]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.reduce((y - outputs) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        self.seen.update_state(loss)
        self.error.update_state(y, outputs)
        return {"loss": self.seen.result(), "mae": self.error.result(), "raw": loss}


class OwnStepOfASum(OwnStep):
    reduce = staticmethod(tf.reduce_sum)


class WideAndDeep(keras.Model):
    def __init__(self):
        super().__init__()
        self.wide, self.deep, self.other = L.Dense(3), dense(), keras.optimizers.SGD(0.01)

    def call(self, x):
        return self.wide(x) + self.deep(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x))
        variables = self.wide.trainable_variables, self.deep.trainable_variables
        wide, deep = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(wide, variables[0]))
        self.other.apply_gradients(zip(deep, variables[1]))
        return {"loss": loss}


class Alternating(WideAndDeep):
    """The second half sees what the first half learned in the same step, as in a GAN."""

    def train_step(self, data):
        x, y = data
        for half, optimizer in ((self.wide, self.optimizer), (self.deep, self.other)):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x))
            gradients = tape.gradient(loss, half.trainable_variables)
            optimizer.apply_gradients(zip(gradients, half.trainable_variables))
        return {"loss": loss}


class Average(keras.Sequential):
    """Keeps a moving average of its weights, updated after each step."""

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        self.kept = [tf.Variable(weight.value) for weight in self.trainable_variables]

    def train_step(self, data):
        logs = super().train_step(data)
        for mean, weight in zip(self.kept, self.trainable_variables):
            mean.assign(0.9 * mean + 0.1 * weight)
        return logs


def on_batches():
    model = dense(L.Dropout(0.2))
    model.compile(keras.optimizers.Adam(0.01), losses.MeanSquaredError(reduction="sum"), jit_compile=JIT)
    return model, {"loss": [model.train_on_batch(X[i : i + 40], Y[i : i + 40]) for i in (0, 40, 60)]}


CASES = {
    "mean": lambda: trained(dense()),
    "sum": reduced("sum", sample_weight=WEIGHTS),
    "none": reduced("none"),
    "sample_weight": reduced("sum_over_batch_size", sample_weight=WEIGHTS),
    "masked": masked("sum_over_batch_size"),
    "masked_sum": masked("sum"),
    "two_outputs": two_outputs,
    "add_loss": lambda: trained(dense(Penalty())),
    "loss_of_a_sum": lambda: trained(dense(), loss=sum_of_squares, metrics=[mean_of_squares]),
    "loss_of_a_mean": lambda: trained(dense(), loss=mean_of_squares, metrics=[sum_of_squares]),
    "dropout": lambda: trained(dense(L.Dropout(0.4), L.GaussianNoise(0.3), L.Reshape((4, 4)), L.SpatialDropout1D(0.2),
                                     L.Flatten())),
    "counter": lambda: trained(dense(Steps())),
    "foreign_metric": lambda: trained(dense(), metrics=[Largest()]),
    "own_step": lambda: trained(OwnStep(), loss=None, metrics=None),
    "own_step_of_a_sum": lambda: trained(OwnStepOfASum(), loss=None, metrics=None),
    "two_optimizers": lambda: trained(WideAndDeep(), metrics=None),
    "steps_per_execution": lambda: trained(dense(), steps_per_execution=3),
    "eager": lambda: trained(dense(L.Dropout(0.3)), loss=losses.MeanSquaredError(reduction="sum"), run_eagerly=True),
    "eager_masked": lambda: trained(tagger(), WORDS, TAGS, run_eagerly=True, fit={"validation_data": (WORDS, TAGS)}),
    "clipped": lambda: trained(
        dense(),
        optimizer=keras.optimizers.Adam(0.01, clipnorm=0.5, use_ema=True, gradient_accumulation_steps=ACCUMULATE),
        metrics=[metrics.AUC(), metrics.R2Score()],
        y=(Y > 0).astype("float64"),
        fit={"class_weight": None, "validation_split": 0.3},
    ),
    "on_batches": on_batches,
    "batch_normalization": lambda: trained(dense(L.BatchNormalization())),
    "negatives": lambda: trained(dense(), loss=in_batch_negatives),
    "alternating": lambda: trained(Alternating(), metrics=None),
    "average_of_weights": lambda: trained(Average([keras.Input((12,)), L.Dense(3)])),
}  # fmt: skip
if hasattr(keras.Model(), "unrolled_steps_per_execution"):  # Keras 3.5 has no such reduction
    CASES["mean_with_sample_weight"] = reduced("mean_with_sample_weight", sample_weight=WEIGHTS)
    CASES["masked_weights"] = masked("mean_with_sample_weight")


def scope():
    if not MIRRORED:
        return contextlib.nullcontext()
    # TensorFlow's collectives on CPUs fail on sparse gradients of different lengths: "Shape mismatch in the collective"
    together = tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=together).scope()


result = {}
for name, case in CASES.items():
    keras.utils.set_random_seed(1)
    with scope():
        model, history = case()
    variables = [*model.variables, *model.optimizer.variables, *getattr(model, "kept", [])]
    result.update({f"{name}/v{i:02}": np.array(v) for i, v in enumerate(variables)})
    result.update({f"{name}/{key}": np.array(values) for key, values in history.items()})
    print(name, flush=True)
np.savez(OUT, **result)
