"""Rules at their boundaries, on handmade facts: the mistake, and what merely looks like it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oomph.planning.data_buffers import DataBuffer, Room
from oomph.preflight.facts.data import ARRAYS, DATASET, GENERATOR, PY_DATASET, Data, DataSample, Features, Part, Stage
from oomph.preflight.facts.model import Input, LayerFacts, Loss, MetricFacts, Model, OptimizerFacts, Output, Weights
from oomph.preflight.facts.training import (
    Callback,
    FitFacts,
    InputRange,
    LossOrder,
    OddBatch,
    SavedWhole,
    Training,
    Trial,
    TrialPrediction,
)
from oomph.preflight.rule import ERROR, WARNING
from oomph.preflight.rules import RULES

BY_NAME = {rule.name: rule for rule in RULES}
PLAIN = Training(Model("Sequential", (), ()), Data(ARRAYS), FitFacts())


def found(name: str, training: Training) -> list[str]:
    """Return the severities of what one rule finds."""
    rule = BY_NAME[name]
    return [finding.severity or rule.severity for finding in rule.find(training)]


def with_model(**changes: object) -> Training:
    return replace(PLAIN, model=replace(PLAIN.model, **changes))  # type: ignore[arg-type]


def with_fit(*callbacks: Callback, **changes: object) -> Training:
    return replace(PLAIN, fit=FitFacts(callbacks=callbacks, **changes))  # type: ignore[arg-type]


def with_trial(model: Model = PLAIN.model, **changes: object) -> Training:
    return replace(PLAIN, model=model, trial=Trial(8, **changes))  # type: ignore[arg-type]


def stopping(monitor: str, mode: str = "auto", kind: str = "EarlyStopping", **more: object) -> Callback:
    return Callback(kind, settings={"monitor": monitor, "mode": mode, **more}, needs_direction=True)


def measured(*callbacks: Callback, outputs: int = 1, has_direction: bool = True) -> Training:
    """Return a model whose outputs "a", "b", ... have the metric accuracy."""
    metric = MetricFacts("accuracy", "accuracy", has_direction=has_direction)
    each = tuple(Output("abc"[index], (None, 1), metrics=(metric,)) for index in range(outputs))
    return replace(PLAIN, model=Model("Functional", (), each), fit=FitFacts(callbacks=callbacks, has_validation=True))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (measured(stopping("val_accuracy")), []),
        (measured(stopping("val_loss"), outputs=2), []),
        (measured(stopping("val_a_accuracy"), outputs=2), [ERROR]),
        (measured(stopping("val_a_loss"), outputs=2), [ERROR]),
        (measured(stopping("val_a_accuracy", "max"), outputs=2), []),
        (measured(stopping("val_accuracy"), has_direction=False), [ERROR]),
        (measured(stopping("val_other"), has_direction=False), []),  # reported by monitor-missing
        (measured(stopping("accuracy", kind="ModelCheckpoint"), has_direction=False), []),  # saves every epoch
        (measured(stopping("accuracy", kind="ModelCheckpoint", save_best_only=True), has_direction=False), [ERROR]),
        (measured(replace(stopping("val_accuracy"), needs_direction=False), has_direction=False), []),
    ],
)
def test_monitor_without_a_direction_is_found(training, expected):
    assert found("monitor-without-direction", training) == expected


def rates(kind: str, *values: float) -> Training:
    return with_model(optimizer=OptimizerFacts("Adam", values[0], kind, values))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (rates("ExponentialDecay", 1e-3, 1.2e-3, 1.5e-3, 1.8e-3, 2e-3), [WARNING]),
        (rates("ExponentialDecay", 1e-3, 9e-4, 8e-4, 7e-4, 6e-4), []),
        (rates("ExponentialDecay", 1e-3, 1e-3, 1e-3, 1e-3, 1e-3), []),
        (rates("CosineDecay", 0.0, 1e-3, 2e-3, 3e-3, 4e-3), []),  # a warm-up that is longer than the training run
        (rates("Warmup", 1e-4, 2e-4, 3e-4, 4e-4, 5e-4), []),  # a custom one
        (rates("PiecewiseConstantDecay", 1e-4, 1e-3, 1e-3, 1e-4, 1e-4), []),
    ],
)
def test_rising_schedule_is_found(training, expected):
    assert found("schedule-rises", training) == expected


def behind(vocabulary: int, rows: int, feeds: tuple[str, ...] = ("e",), kind: str = "Embedding") -> Training:
    lookup = LayerFacts("t", "TextVectorization", settings={"vocabulary_size": vocabulary}, feeds=feeds)
    return with_model(layers=(lookup, LayerFacts("e", kind, settings={"input_dim": rows, "output_dim": 8})))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (behind(100, 99), [ERROR]),
        (behind(100, 100), []),
        (behind(100, 99, ()), [ERROR]),  # in a Sequential model that is not built
        (behind(100, 99, ("other",)), []),
        (behind(100, 99, kind="Dense"), []),
    ],
)
def test_vocabulary_larger_than_its_embedding_is_found(training, expected):
    assert found("vocabulary-exceeds-embedding", training) == expected


@pytest.mark.parametrize(
    ("weights", "classes", "expected"),
    [
        ({0: 1.0, 1: 5.0}, {0: 900, 1: 100}, []),
        ({0: 5.0, 1: 1.0}, {0: 900, 1: 100}, [WARNING]),
        ({0: 5.0, 1: 1.0}, {0: 120, 1: 100}, []),  # about as many
        ({0: 1.0}, {0: 900, 1: 100}, [WARNING]),
        ({0: 1.0, 1: 2.0}, {}, []),  # not classes
    ],
)
def test_class_weights_that_contradict_the_class_sizes_are_found(weights, classes, expected):
    part = Part("y", "y", shape=(None, 2), sample=DataSample(1000, classes=classes))
    training = replace(PLAIN, data=Data(ARRAYS, (part,)), fit=FitFacts(class_weight=weights))
    assert found("class-weights", training) == expected


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (Callback("LearningRateScheduler", rates=(1e-3, 1e-4)), []),
        (Callback("LearningRateScheduler", rates=(0.0, 1e-3)), [WARNING]),
        (Callback("LearningRateScheduler", rates=(0.0, 0.0)), [ERROR]),
        (Callback("LearningRateScheduler", rates=(1e-3, -1e-3)), [ERROR]),
        (Callback("LearningRateScheduler", no_rate="None in epoch 1"), [ERROR]),
        (Callback("LearningRateScheduler"), []),  # its function could not be called
    ],
)
def test_learning_rates_of_a_schedule_are_checked(callback, expected):
    assert found("scheduled-rate", with_fit(callback)) == expected


def test_schedule_that_multiplies_its_previous_rate_is_found():
    falls = Callback("LearningRateScheduler", rates=(1e-2, 1e-3, 1e-5, 1e-8, 1e-12))
    assert found("scheduled-rate", with_fit(falls)) == [WARNING]
    steps_down = Callback("LearningRateScheduler", rates=(1e-2, 1e-2, 1e-3, 1e-3, 1e-4))
    assert found("scheduled-rate", with_fit(steps_down)) == []


@pytest.mark.parametrize(
    ("path", "has_validation", "expected"),
    [
        ("model-{epoch:02d}.keras", False, []),
        ("model-{accuracy:.2f}.keras", False, []),
        ("model-{val_accuracy:.2f}.keras", True, []),
        ("model-{val_accuracy:.2f}.keras", False, [ERROR]),
        ("model-{val_acc:.2f}.keras", True, [ERROR]),
        ("model-{broken.keras", True, []),
    ],
)
def test_checkpoint_path_with_an_unknown_metric_is_found(path, has_validation, expected):
    training = measured(Callback("ModelCheckpoint", settings={"filepath": path}))
    training = replace(training, fit=replace(training.fit, has_validation=has_validation))
    assert found("checkpoint-file-key", training) == expected


@pytest.mark.parametrize(("same", "steps", "expected"), [(20, 100, [WARNING]), (2, 100, []), (0, 100, []), (20, 1, [])])
def test_dataset_that_repeats_the_same_batches_is_found(same, steps, expected):
    training = replace(PLAIN, data=Data(DATASET, same_batches=same), fit=FitFacts(steps_per_epoch=steps))
    assert found("same-batches", training) == expected
    repeated = replace(training, data=replace(training.data, stages=(Stage("batch"), Stage("repeat"))))
    assert found("same-batches", repeated) == []


@pytest.mark.parametrize(
    ("batches", "steps", "expected"),
    [(400, 12, [WARNING]), (400, 13, [WARNING]), (400, 400, []), (400, 100, []), (400, None, []), (20, 1, [])],
)
def test_steps_per_epoch_divided_twice_is_found(batches, steps, expected):
    training = replace(PLAIN, data=Data(DATASET, batch=32, batches=batches), fit=FitFacts(steps_per_epoch=steps))
    assert found("steps-divided-twice", training) == expected


def test_normalization_that_was_not_adapted_is_found():
    for adapted, expected in ((False, [WARNING]), (True, []), (None, [])):
        layer = LayerFacts("n", "Normalization", settings={} if adapted is None else {"is_adapted": adapted})
        assert found("not-adapted", with_model(layers=(layer,))) == expected


@pytest.mark.parametrize(
    ("values", "line"),
    [((-1, 1), "y = (y + 1) / 2"), ((1, 2), "y = y - 1"), ((3, 7), "y = (y - 3) / 4"), ((0, 255), "y = y / 255")],
)
def test_suggested_code_for_binary_targets_yields_0_and_1(values, line):
    low, high = map(float, values)
    sample = DataSample(100, minimum=low, maximum=high, is_integral=True, counts={low: 50, high: 50})
    output = Output("o", (None, 1), activation="sigmoid", loss=Loss("binary_crossentropy"))
    training = replace(
        with_model(outputs=(output,)), data=Data(ARRAYS, (Part("y", "y", shape=(None,), sample=sample),))
    )
    (finding,) = BY_NAME["binary-targets"].find(training)
    assert finding.code == line


@pytest.mark.parametrize(
    ("fit", "batches", "expected"),
    [
        (FitFacts(epochs=3), 16, [WARNING]),
        (FitFacts(epochs=1), 16, []),
        (FitFacts(epochs=3), None, []),
        (FitFacts(epochs=3, steps_per_epoch=5), 16, []),
    ],
)
def test_generator_for_too_few_epochs_is_found(fit, batches, expected):
    training = replace(PLAIN, data=Data(GENERATOR, batches=batches), fit=fit)
    assert found("runs-out-of-data", training) == expected


@pytest.mark.parametrize(
    ("batches", "has_length", "fit", "expected"),
    [
        (20, True, FitFacts(epochs=6, steps_per_epoch=8), "in epoch 3, 6, and 8 steps never run"),
        (20, True, FitFacts(epochs=2, steps_per_epoch=8), ""),
        (20, True, FitFacts(epochs=6, steps_per_epoch=10), ""),
        (20, True, FitFacts(epochs=6), ""),
        (20, False, FitFacts(epochs=4, steps_per_epoch=20), "in epoch 2, 4, and 40 steps never run"),
        (20, False, FitFacts(epochs=1, steps_per_epoch=20), ""),
        (20, True, FitFacts(epochs=9, initial_epoch=4, steps_per_epoch=8), "in epoch 7, and 4 steps never run"),
        (-1, True, FitFacts(epochs=6, steps_per_epoch=8), ""),  # endless
    ],
)
def test_data_exhausted_in_a_later_epoch_is_found(batches, has_length, fit, expected):
    training = replace(PLAIN, data=Data(PY_DATASET, batches=batches, has_length=has_length), fit=fit)
    messages = [finding.message for finding in BY_NAME["runs-out-of-data"].find(training)]
    assert [message.partition("it runs out ")[2] for message in messages] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("kind", "python", "skips"), [(DATASET, False, True), (DATASET, True, False), (GENERATOR, False, False)]
)
def test_skipping_corrupt_records_is_not_advised_for_python_errors(kind, python, skips):
    data = Data(
        kind, stages=(Stage("map", is_python=python),), failed="InvalidArgumentError: bad", failed_record="a.jpg"
    )
    (finding,) = BY_NAME["data-raise"].find(replace(PLAIN, data=data))
    assert ("--skip-corrupt" in finding.remedy) is skips


def test_callback_passed_as_a_class_is_found():
    assert found("callback-is-class", with_fit(Callback("EarlyStopping", is_class=True))) == [ERROR]
    assert found("callback-is-class", with_fit(Callback("EarlyStopping"))) == []


@pytest.mark.parametrize(("wanted", "steps", "expected"), [(8, 8, []), (9, 8, [ERROR]), (9, None, []), (None, 8, [])])
def test_gradient_accumulation_that_outlasts_the_training_run_is_found(wanted, steps, expected):
    optimizer = OptimizerFacts("Adam", settings={"gradient_accumulation_steps": wanted})
    training = replace(with_model(optimizer=optimizer), fit=FitFacts(steps=steps))
    assert found("accumulates-to-the-end", training) == expected


def ordered(right: float, wrong: float, activation: str) -> Training:
    model = Model("Sequential", (), (Output("o", (None, 1), activation=activation, loss=Loss("mine", is_keras=False)),))
    return with_trial(model, orders=(LossOrder("o", "mine", right, wrong),))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (ordered(0.99, 0.01, "sigmoid"), [ERROR]),
        (ordered(0.01, 0.99, "sigmoid"), []),
        (ordered(5.0, 1.0, "linear"), [WARNING]),
        (ordered(0.5, 0.5, "sigmoid"), []),
        (ordered(float("nan"), 0.5, "sigmoid"), []),
    ],
)
def test_loss_that_prefers_wrong_answers_is_found(training, expected):
    assert found("loss-prefers-wrong", training) == expected


@pytest.mark.parametrize(
    ("told", "low", "high", "expected"),
    [
        ((0, 255), 0, 1, [ERROR]),
        ((0, 1), 0, 255, [ERROR]),
        ((0, 255), 0, 240, []),
        ((0, 255), 20, 60, []),  # dark images
        ((0, 1), -1, 1, []),
        ((0, 255), 0, 0, []),  # nothing to see
    ],
)
def test_input_values_outside_the_expected_range_are_found(told, low, high, expected):
    assert found("value-range", with_trial(ranges=(InputRange("b", low, high, told),))) == expected


def test_misuse_of_metrics_observed_in_the_trial_is_found():
    assert found("metric-not-reset", with_trial(not_reset=("specificity",))) == [WARNING]
    assert found("reads-ahead", with_trial(reads_ahead=True)) == [ERROR]
    assert found("difference-broadcasts", with_trial(broadcasts="(20,) - (20, 1)")) == [ERROR]
    for name in ("metric-not-reset", "reads-ahead", "difference-broadcasts"):
        assert found(name, with_trial()) == []


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("binary_crossentropy", [ERROR]), ("kl_divergence", [ERROR]), ("mean_squared_error", []), ("", [])],
)
def test_swapped_loss_is_found(loss, expected):
    assert found("swapped-loss", with_model(swapped_loss=loss)) == expected


@pytest.mark.parametrize(
    ("shape", "apart", "expected"),
    [((None,), True, [ERROR]), ((None, 10), True, [ERROR]), ((None, 64, 64, 3), True, []), ((None,), False, [])],
)
def test_separately_shuffled_inputs_and_targets_are_found(shape, apart, expected):
    data = Data(DATASET, (Part("x", "x", shape=(None, 64, 64, 3)), Part("y", "y", shape=shape)), shuffled_apart=apart)
    assert found("shuffled-apart", replace(PLAIN, data=data)) == expected


def segmentation(kind: str, target: tuple[int | None, ...]) -> Training:
    model = Model(
        "Functional",
        (LayerFacts("r", kind),),
        (Output("o", (None, 64, 64, 1)),),
        (Input("i", (None, 64, 64, 3), "float32"),),
    )
    parts = (Part("x", "x", shape=(None, 64, 64, 3)), Part("y", "y", shape=target))
    return replace(PLAIN, model=model, data=Data(ARRAYS, parts))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (segmentation("RandomFlip", (None, 64, 64, 1)), [ERROR]),
        (segmentation("RandomFlip", (None, 64, 64)), [ERROR]),
        (segmentation("RandomBrightness", (None, 64, 64, 1)), []),  # does not move anything
        (segmentation("RandomFlip", (None,)), []),
        (segmentation("RandomFlip", (None, 4)), []),
    ],
)
def test_targets_not_augmented_with_their_images_are_found(training, expected):
    assert found("targets-not-moved", training) == expected


def test_empty_batches_and_frozen_random_numbers_are_found():
    assert found("empty-batches", replace(PLAIN, data=Data(ARRAYS, batches=600, empty_batch=38))) == [WARNING]
    assert found("empty-batches", PLAIN) == []
    drawing = Data(DATASET, stages=(Stage("map", frozen_random="np.random.randint"),))
    assert found("frozen-random", replace(PLAIN, data=drawing)) == [WARNING]
    layer = LayerFacts("s", "Sampling", is_keras=False, frozen_random="np.random.normal")
    assert found("frozen-random", with_model(layers=(layer,))) == [WARNING]
    assert found("frozen-random", with_model(layers=(layer,), run_eagerly=True)) == []


def frozen(*fresh: bool | None, head: bool = True, **changes: object) -> Training:
    layers = [
        LayerFacts(f"l{i}", "Dense", trainable=False, weights=Weights(0, 9, is_fresh=each))
        for i, each in enumerate(fresh)
    ]
    last = [LayerFacts("head", "Dense", weights=Weights(5))] * head
    return replace(with_model(layers=(*layers, *last)), fit=FitFacts(**changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (frozen(True, True), [WARNING]),
        (frozen(True, None, True), [WARNING]),
        (frozen(True, False), []),  # one has learned
        (frozen(None, None), []),  # there is no evidence
        (frozen(True), []),  # a projection
        (frozen(True, True, head=False), []),  # nothing is trained, which another rule reports
        (frozen(True, True, kind="train_on_batch"), []),  # a GAN
    ],
)
def test_layers_frozen_at_random_weights_are_found(training, expected):
    assert found("frozen-at-random", training) == expected


def test_generator_with_a_frozen_discriminator_is_not_a_frozen_base():
    layers = [
        LayerFacts("g", "Dense", weights=Weights(5)),
        *(LayerFacts(f"d{i}", "Dense", trainable=False, weights=Weights(0, 9, is_fresh=True)) for i in range(3)),
    ]
    assert found("frozen-at-random", with_model(layers=tuple(layers))) == []


@pytest.mark.parametrize(
    ("own", "unchanged", "rate", "expected"),
    [(True, True, 0.1, [ERROR]), (True, False, 0.1, []), (False, True, 0.1, []), (True, True, 0, [])],
)
def test_optimizer_step_that_changes_nothing_is_found(own, unchanged, rate, expected):
    model = Model("Own", (), (), optimizer=OptimizerFacts("SGD", rate), own_train_step=own)
    assert found("nothing-applied", with_trial(model, losses=(1.0,), unchanged=unchanged)) == expected
    scaling = replace(model, optimizer=replace(model.optimizer, scales_loss=True))
    assert found("nothing-applied", with_trial(scaling, losses=(1.0,), unchanged=unchanged)) == []


def test_untracked_variables_are_found():
    layer = LayerFacts("p", "Projection", is_keras=False, untracked=("w", "b"))
    assert found("untracked-variables", with_model(layers=(layer,))) == [ERROR]
    assert found("untracked-variables", with_model(layers=(layer,), own_train_step=True)) == []


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("source", "batch", "shuffle"), [WARNING]),
        (("source", "shuffle", "batch"), []),
        (("source", "shuffle", "batch", "shuffle"), []),
        (("source", "batch", "unbatch", "shuffle", "batch"), []),
        (("source", "batch", "map", "shuffle", "batch"), []),
    ],
)
def test_batch_before_shuffle_is_found(kinds, expected):
    stages = tuple(Stage(kind, inputs=int(kind != "source")) for kind in kinds)
    assert found("batch-before-shuffle", replace(PLAIN, data=Data(DATASET, stages=stages))) == expected


def test_batch_inside_a_mixture_is_not_a_batch_before_the_shuffle():
    stages = (Stage("range"), Stage("batch"), Stage("directed_interleave", inputs=2), Stage("shuffle"), Stage("batch"))
    assert found("batch-before-shuffle", replace(PLAIN, data=Data(DATASET, stages=stages))) == []


def test_target_among_window_features_is_found():
    features = Features((0.0,), (1.0,), like_target=(5,))
    part = Part("x", "x", shape=(None, 24, 2), sample=DataSample(100, features=features))
    (finding,) = BY_NAME["target-in-features"].find(replace(PLAIN, data=Data(DATASET, (part,))))
    assert "feature 1 of step 2" in finding.message


@pytest.mark.parametrize(
    ("metric", "logits", "expected"),
    [
        (MetricFacts("auc", "auc", settings={"from_logits": False}), True, [WARNING]),
        (MetricFacts("auc", "auc", settings={"from_logits": True}), True, []),
        (MetricFacts("auc", "auc", settings={"from_logits": False}), False, []),
    ],
)
def test_curve_metric_applied_to_logits_is_found(metric, logits, expected):
    loss = Loss("binary_crossentropy", from_logits=logits)
    output = Output("o", (None, 1), activation="linear", loss=loss, metrics=(metric,))
    assert found("wrong-accuracy", with_model(outputs=(output,))) == expected


def tabular(*operations: str, largest: float = 900.0, usual: float = 900.0) -> Training:
    """Return a model that starts with these operations, for a table with one large feature."""
    sample = DataSample(500, features=Features((1.0, 30.0), (2.0, largest), (2.0, usual)))
    data = Data(ARRAYS, (Part("x", "x", shape=(None, 2), sample=sample),))
    return replace(PLAIN, model=Model("Functional", (LayerFacts("d", "Dense"),), (), operations=operations), data=data)


@pytest.mark.parametrize(
    ("training", "remedy"),
    [
        (tabular(), "Scale each feature"),
        (tabular("Stack", "GetItem"), "Scale each feature"),
        (tabular("Subtract", "TrueDivide"), ""),
        (tabular(usual=9.0), "Before scaling the features, remove or replace"),
        (tabular(usual=11.0), "Scale each feature"),  # the others are also large
        (tabular(largest=99.0), ""),
    ],
)
def test_unscaled_features_are_found_with_a_matching_remedy(training, remedy):
    found = [finding.remedy for finding in BY_NAME["feature-scale"].find(training)]
    assert len(found) == bool(remedy)
    assert all(each.startswith(remedy) for each in found)


def photos(low: float, high: float, pretrained: str, *layers: LayerFacts, operations: tuple[str, ...] = ()) -> Training:
    """Return images in this range for a pretrained model, after these layers and operations."""
    sample = DataSample(64, minimum=low, maximum=high, mean=(low + high) / 2, deviation=high / 4)
    data = Data(ARRAYS, (Part("x", "x", shape=(None, 32, 32, 3), sample=sample),))
    model = Model("Functional", (*layers, LayerFacts("c", "Conv2D")), (), operations=operations, pretrained=pretrained)
    return replace(PLAIN, model=model, data=data)


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (photos(0, 255, "mobilenetv2"), [WARNING]),
        (photos(0, 255, "mobilenetv2", operations=("TrueDivide", "Subtract")), []),
        (photos(0, 1, "efficientnetb0"), [WARNING]),
        (
            photos(0, 1, "efficientnetb0", LayerFacts("r", "Rescaling", settings={"scale": 1 / 255})),
            [WARNING],
        ),  # its own scaling
        (photos(0, 1, "efficientnetb0", LayerFacts("r", "Rescaling", settings={"scale": 255})), []),
        (photos(0, 1, "efficientnetb0", operations=("Multiply",)), []),
        (photos(0, 1, "vgg16"), [WARNING]),
        (photos(0, 1, "vgg16", operations=("GetItem", "Stack")), [WARNING]),
    ],
)
def test_inputs_outside_the_pretrained_range_are_found(training, expected):
    assert found("pretrained-range", training) == expected


@pytest.mark.parametrize(("operations", "expected"), [((), [WARNING]), (("Stack",), [WARNING]), (("TrueDivide",), [])])
def test_unscaled_images_are_found(operations, expected):
    assert found("image-range", photos(0, 255, "", operations=operations)) == expected


@pytest.mark.parametrize(("own_call", "expected"), [(False, [WARNING]), (True, [])])
def test_unscaled_images_are_accepted_if_a_custom_call_may_normalize(own_call, expected):
    training = photos(0, 255, "")
    layers = (*training.model.layers, LayerFacts("n", "Normalization"))  # an attribute created after the network
    model = replace(training.model, layers=layers, own_call=own_call)
    assert found("image-range", replace(training, model=model)) == expected


@pytest.mark.parametrize(
    ("behind", "expected"),
    [(("BatchNormalization",), []), (("ReLU", "BatchNormalization"), [WARNING]), ((), [WARNING])],
    ids=["at-once", "later", "never"],
)
def test_unscaled_images_are_accepted_if_normalization_directly_follows_the_first_weights(behind, expected):
    training = photos(0, 255, "")
    layers = (*training.model.layers, *(LayerFacts(f"l{number}", kind) for number, kind in enumerate(behind)))
    assert found("image-range", replace(training, model=replace(training.model, layers=layers))) == expected


def held_out(ours: dict[float, int], theirs: dict[float, int], role: str = "y") -> Training:
    """Return whole numbers with these numbers of occurrences in the training data and in the validation data."""

    def part(counts: dict[float, int]) -> Part:
        values = np.repeat(list(counts), list(counts.values()))
        sample = DataSample(len(values), mean=float(values.mean()), deviation=float(values.std()), counts=counts)
        return Part(role, role, sample=sample)

    return replace(PLAIN, data=Data(ARRAYS, (part(ours),)), validation=Data(ARRAYS, (part(theirs),)))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (held_out({0: 500, 1: 500}, {0: 997, 1: 3}), []),
        (held_out({0: 500, 1: 500}, {0: 997, 1: 3}, "x"), [WARNING]),
        (held_out({0: 500, 1: 500}, {0: 500, 255: 500}), [WARNING]),
        (held_out({0: 500, 255: 500}, {0: 500, 1: 500}), [WARNING]),
    ],
)
def test_differently_scaled_validation_data_is_found(training, expected):
    assert found("validation-scaled-differently", training) == expected


def constant(name: str, *feeds: str) -> LayerFacts:
    return LayerFacts(name, "Conv2D", weights=Weights(9, is_constant=True), feeds=feeds)


@pytest.mark.parametrize(
    ("layers", "own", "expected"),
    [
        ((constant("last"), constant("last")), "own_train_step", []),  # a network and its clone
        ((constant("last"),), "own_call", []),
        ((constant("last"),), "run_eagerly", [WARNING]),
        ((constant("hidden", "last"), constant("hidden", "last")), "own_train_step", [WARNING]),
        ((constant("one", "two"), constant("two", "three")), "own_train_step", [ERROR]),
    ],
)
def test_constant_weights_are_found(layers, own, expected):
    assert found("constant-weights", with_model(layers=layers, **{own: True})) == expected


@pytest.mark.parametrize(("differs", "expected"), [(False, [ERROR]), (True, [])])
def test_identical_predictions_for_all_samples_are_found(differs, expected):
    sample = DataSample(64, mean=0.0, deviation=1.0)
    answer = TrialPrediction("a", (8, 1), 0.5, 0.5, spread=0.0, spread_after=0.0)
    training = with_trial(losses=(0.7,), predictions=(answer,), differs_in_training=differs)
    training = replace(training, data=Data(ARRAYS, (Part("x", "x", sample=sample),)))
    assert found("same-answer-for-all", training) == expected


def gaps(ours: int, theirs: int, role: str = "x") -> Training:
    """Return data with this many rows that contain NaN in training, and this many in validation."""
    data, held = (Data(ARRAYS, (Part(role, role, sample=DataSample(90, nan_rows=rows)),)) for rows in (ours, theirs))
    output = Output("o", (None, 1), loss=Loss("mean_squared_error"))
    return replace(with_model(outputs=(output,)), data=data, validation=held)


MASKS_NAN = replace(gaps(0, 5, "y"), model=Model("Sequential", (), (Output("o", None, loss=Loss("own", False)),)))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (gaps(0, 5), [WARNING]),
        (gaps(0, 5, "y"), [WARNING]),
        (gaps(3, 5), []),  # reported by nan-in-input
        (gaps(0, 0), []),
        (replace(gaps(0, 5), validation=None), []),
        (replace(gaps(0, 5), fit=FitFacts(callbacks=(stopping("val_loss"),))), [ERROR]),
        (replace(gaps(0, 5), model=Model("Sequential", (LayerFacts("m", "Masking"),), ())), []),
        (MASKS_NAN, []),
    ],
)
def test_non_finite_validation_loss_is_found(training, expected):
    assert found("validation-not-finite", training) == expected


def one_hot(activation: str, loss: str = "mean_squared_error", copies: bool = False, sums: float = 1.0) -> Training:
    target = Part(
        "y", "y", shape=(None, 3), sample=DataSample(90, zero_one=True, is_integral=True, row_sums=(1.0, sums))
    )
    given = Part("x", "x", shape=(None, 3), equals_target=copies)
    output = Output("o", (None, 3), activation=activation, loss=Loss(loss))
    return replace(with_model(outputs=(output,)), data=Data(ARRAYS, (given, target)))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (one_hot("sigmoid"), [WARNING]),
        (one_hot("softmax"), [WARNING]),
        (one_hot("linear"), []),  # least squares
        (one_hot("sigmoid", sums=2.0), []),  # several may be true
        (one_hot("sigmoid", copies=True), []),  # an autoencoder
        (one_hot("sigmoid", "binary_crossentropy"), []),
    ],
)
def test_regression_loss_for_exclusive_classes_is_found(training, expected):
    assert found("regression-loss-for-classes", training) == expected


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (LayerFacts("f", "Flatten", loses_mask=True), [WARNING]),
        (LayerFacts("r", "Reshape", loses_mask=True), [WARNING]),
        (LayerFacts("f", "Flatten"), []),
        (LayerFacts("g", "GlobalAveragePooling1D", loses_mask=True), []),  # it has been used
        (LayerFacts("f", "Flatten", is_keras=False, loses_mask=True), []),
    ],
)
def test_lost_mask_is_found(layer, expected):
    assert found("mask-lost", with_model(layers=(layer,))) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (LossOrder("o", "own", 0.5, 1.0, 0.007), [WARNING]),
        (LossOrder("o", "own", 0.0005, 7.6, 0.0), []),  # of probabilities, clipped
        (LossOrder("o", "own", 0.5, 1.0, 0.9), []),
        (LossOrder("o", "own", 0.5, 1.0, -5.0), []),  # linear
        (LossOrder("o", "own", 0.5, 1.0, float("nan")), []),
        (LossOrder("o", "own", 0.5, 1.0), []),
    ],
)
def test_probabilities_passed_to_a_custom_logit_loss_are_found(order, expected):
    assert found("probabilities-as-logits", with_trial(orders=(order,))) == expected


def columns(dtype: str, size: int, kind: str = DATASET, computes: str = "float32") -> Training:
    layers = (LayerFacts("d", "Dense", compute_dtype=computes),)
    data = Data(kind, (Part("x", "x", shape=(None, size), dtype=dtype),), samples=1000)
    return replace(with_model(layers=layers), data=data)


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (columns("float64", 100), [WARNING]),
        (columns("float64", 10), []),  # 80 KB
        (columns("float32", 100), []),
        (columns("float64", 100, ARRAYS), []),  # Keras casts them only once
        (columns("float64", 100, computes="float64"), []),
    ],
)
def test_float64_features_are_found(training, expected):
    assert found("float64-features", training) == expected


@pytest.mark.parametrize("in_validation", [False, True])
def test_failing_odd_batch_is_found_in_training_and_in_validation(in_validation):
    odd = OddBatch(8, "ValueError: expected 32", in_validation)
    training = replace(with_trial(odd_batches=(odd,)), data=Data(DATASET, batch=32), validation=Data(ARRAYS))
    (finding,) = BY_NAME["odd-batch-fails"].find(training)
    assert ("validation" in finding.message, "drop_remainder" in finding.code) == (in_validation, not in_validation)
    assert found("odd-batch-fails", PLAIN) == []


@pytest.mark.parametrize(
    ("saved", "rule", "expected"),
    [
        (
            SavedWhole("ModelCheckpoint", "a.keras", trouble="TypeError: x", culprit="Scale"),
            "model-not-savable",
            [ERROR],
        ),
        (SavedWhole("ModelCheckpoint", "a.keras"), "model-not-savable", []),
        (SavedWhole("model.save", "a.keras", load_trouble="TypeError: x"), "saved-model-not-loadable", [WARNING]),
        (
            SavedWhole("model.save", "a.keras", is_loaded_at="t.py:9", load_trouble="TypeError: x", is_own_load=True),
            "saved-model-not-loadable",
            [ERROR],
        ),
        (SavedWhole("model.save", "a.keras", is_loaded_at="t.py:9"), "saved-model-not-loadable", []),
    ],
)
def test_saving_a_whole_model_is_reported(saved, rule, expected):
    assert found(rule, replace(PLAIN, fit=FitFacts(saves=(saved,)))) == expected


GB = 1 << 30


@pytest.mark.parametrize(
    ("buffers", "expected"),
    [
        ([DataBuffer("shuffle", 100, GB // 4)], [ERROR]),
        ([DataBuffer("shuffle", 80, GB // 4)], [WARNING]),
        ([DataBuffer("shuffle", 50, GB // 4)], []),
        ([DataBuffer("shuffle", 50, GB // 4), DataBuffer("cache", 50, GB // 4)], [ERROR]),
        ([DataBuffer("shuffle", 10**9, None), DataBuffer("cache", None, GB)], []),
        ([DataBuffer("cache", 90, GB, "/data/cached")], [ERROR]),  # on a disk with 60 GB
        ([DataBuffer("cache", 50, GB, "/data/cached")], []),
    ],
)
def test_buffer_that_exceeds_memory_or_disk_is_found(buffers, expected):
    data = Data(DATASET, buffers=tuple(buffers), room=Room(memory=24 * GB, disk=60 * GB))
    assert found("buffer-exceeds-memory", replace(PLAIN, data=data)) == expected
    assert found("buffer-exceeds-memory", replace(PLAIN, validation=data)) == expected


def test_oversized_buffer_is_reported_with_a_size_that_fits():
    data = Data(DATASET, buffers=(DataBuffer("shuffle", 100_000, 602_116),), room=Room(memory=24 * GB))
    (told,) = BY_NAME["buffer-exceeds-memory"].find(replace(PLAIN, data=data))
    assert (
        told.message
        == "the shuffle keeps 100,000 elements of 588 KiB: 56.1 GiB, but this machine has 24.0 GiB of memory"
    )
    assert told.code == "dataset.shuffle(10000)"


def sparse(held: Part, **inputs: object) -> Training:
    """Return data with three integer class labels, with these targets in validation."""
    output = Output("o", (None, 3), activation="softmax", loss=Loss("sparse_categorical_crossentropy"))
    model = replace(PLAIN.model, outputs=(output,), **inputs)  # type: ignore[arg-type]
    given = Part("y", "y", shape=(None,), sample=numbers(0, 2))
    return replace(PLAIN, model=model, data=Data(ARRAYS, (given,)), validation=Data(ARRAYS, (held,)))


def numbers(low: int, high: int) -> DataSample:
    counts = {float(value): 10 for value in range(low, high + 1)}
    return DataSample(100, minimum=low, maximum=high, is_integral=True, counts=counts)


def tables(ours: int, theirs: int | None, inputs: tuple[Input, ...] = ()) -> Training:
    data, held = (Data(ARRAYS, (Part("x", "x", shape=(None, width)),)) for width in (ours, theirs))
    return replace(with_model(inputs=inputs), data=data, validation=held)


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (sparse(Part("y", "y", shape=(None,), sample=numbers(0, 2))), []),
        (sparse(Part("y", "y", shape=(None, 1), sample=numbers(0, 2))), []),
        (sparse(Part("y", "y", shape=(None,), sample=numbers(0, 3))), [ERROR]),
        (sparse(Part("y", "y", shape=(None, 3))), [ERROR]),
        (sparse(Part("y", "y", shape=(None, 3)), own_train_step=True), []),
        (tables(5, 4), [ERROR]),
        (tables(5, 5), []),
        (tables(5, None), []),
        (tables(5, 4, (Input("i", (None, 5), "float32"),)), [ERROR]),
        (tables(5, 4, (Input("i", (None, None), "float32"),)), []),
        (tables(5, 5, (Input("i", (None, 6), "float32"),)), []),  # reported by input-shape
        (replace(tables(5, 4), validation=None), []),
    ],
)
def test_validation_data_that_does_not_fit_the_model_is_found(training, expected):
    assert found("validation-does-not-fit", training) == expected


def network(*layers: tuple[str, str, tuple[str, ...]]) -> Training:
    """Return layers by name, kind and followers; those whose names start with "s" have a softmax."""
    made = tuple(
        LayerFacts(name, kind, settings={"activation": "softmax" if name[0] == "s" else "relu"}, feeds=feeds,
              weights=Weights(9))
        for name, kind, feeds in layers
    )  # fmt: skip
    return with_model(layers=made, outputs=(Output("o", (None, 1), layer=made[-1]),))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (network(("s", "Dense", ("d",)), ("d", "Dense", ())), [WARNING]),
        (network(("s", "Dense", ("x",)), ("x", "Dropout", ("d",)), ("d", "Dense", ())), [WARNING]),
        (network(("d", "Dense", ("s",)), ("s", "Dense", ())), []),  # the output
        (network(("s", "Dense", ("m",)), ("m", "Multiply", ("d",)), ("d", "Dense", ())), []),  # a gate
        (network(("s", "Dense", ("m", "d")), ("m", "Multiply", ()), ("d", "Dense", ())), []),
        (network(("r", "Dense", ("d",)), ("d", "Dense", ())), []),
    ],
)
def test_softmax_hidden_inside_a_model_is_found(training, expected):
    assert found("hidden-softmax", training) == expected


def piped(*kinds: str, epochs: int = 5, reshuffles: bool | None = True) -> Training:
    stages = tuple(Stage(kind, reshuffles=reshuffles if kind == "shuffle" else None) for kind in kinds)
    return replace(PLAIN, data=Data(DATASET, stages=stages), fit=FitFacts(epochs=epochs))


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (piped("source", "shuffle", "cache", "batch"), [WARNING]),
        (piped("source", "cache", "shuffle", "batch"), []),
        (piped("source", "shuffle", "batch", "cache"), []),
        (piped("source", "shuffle", "cache", "shuffle", "batch"), []),
        (piped("source", "shuffle", "cache", "batch", epochs=1), []),
        (piped("source", "shuffle", "skip", "cache", "batch", reshuffles=False), []),  # a fixed split
    ],
)
def test_shuffle_order_kept_by_a_cache_is_found(training, expected):
    assert found("cached-too-late", training) == expected


@pytest.mark.parametrize(("activation", "expected"), [("linear", [ERROR]), ("softmax", []), ("sigmoid", []), ("", [])])
def test_kl_divergence_of_values_that_are_not_a_distribution_is_found(activation, expected):
    output = Output("o", (None, 4), activation=activation, loss=Loss("kl_divergence"))
    assert found("logits-as-probabilities", with_model(outputs=(output,))) == expected
