"""Situations: what an error means by its class, the function that raised it and the phase, where its words say little.

"'NoneType' object has no attribute 'items'" may come from anywhere. Raised by Keras' `fit`, in a line with `val_logs`,
it means that the validation data held no batch. One row for each situation, the most specific first. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.condition import condition
from oomph.explain.facts.fact import LogFacts
from oomph.files.patterns import lazy_pattern


class Situation(NamedTuple):
    """Facts that together say what happened, and what to do about it."""

    fault: str
    """The name of the fault."""
    remedy: Remedy
    error: re.Pattern[str] | None = None
    """The class and message of the error, or None if the fault is known by other means."""
    functions: Set[str] = frozenset()
    """The innermost functions of a library in the traceback, one of which raised the error; empty for any."""
    file: str = ""
    """A part of the name of the file that raised it."""
    code: str = ""
    """Words in the source line that raised it."""
    own_code: str = ""
    """Words in the user's own lines that the traceback shows."""
    needs: tuple[str, ...] = ()
    """Conditions that the log must state; see `oomph.explain.facts.condition`."""
    confidence: float = 0.85


_NO_ATTRIBUTE = lazy_pattern(r"AttributeError: 'NoneType' object has no attribute '")
_UNPACKED = lazy_pattern(r"ValueError: (?:too many|not enough) values to unpack")
_FEWER_RESULTS = lazy_pattern(
    r"ValueError: (?:too many|not enough) values to unpack|IndexError: invalid index to scalar"
    r"|TypeError: (?:cannot unpack non-iterable \S{0,20}float|'\S{0,20}float\d*' object is not subscriptable)"
)
_RESULTS = Remedy(
    "evaluate and train_on_batch give the loss and as many metrics as compile names, without any only one number: "
    'compile with metrics=["accuracy"], take as many values as there are, or call it with return_dict=True'
)
_OF_DATA = frozenset(
    {"unpack_x_y_sample_weight", "train_step", "test_step", "predict_step", "tf_train_step", "slice_inputs"}
)
_EMPTY_DATA = Remedy(
    "The data set held no batch: count it (sum(1 for _ in dataset)); it has fewer samples than one batch with "
    "drop_remainder=True, a filter that removes all, or a generator that was used up before"
)

SITUATIONS = (
    Situation(
        "input-pipeline",
        Remedy(
            "The training data lasted for all steps of the epoch; the validation data ran out: leave validation_steps "
            "out, make it at most the number of batches there are, or repeat() that data",
            kind="data",
        ),
        needs=("ended validation data",),
    ),
    Situation(
        "keras-version-mismatch",
        Remedy(
            "evaluate of Keras 3 gives the total loss and the metrics of compile only, no loss for each output: unpack "
            "as many (print(model.metrics_names)), or use evaluate(..., return_dict=True)"
        ),
        _UNPACKED,
        own_code=".evaluate(",
        needs=("uses Keras 3",),
    ),
    Situation("unrelated", _RESULTS, _FEWER_RESULTS, own_code=".evaluate("),
    Situation("unrelated", _RESULTS, _FEWER_RESULTS, own_code="_on_batch("),
    Situation(
        "checkpoint-failure",
        Remedy(
            "ModelCheckpoint never wrote this file, because its monitor is no metric of the model (the log says so): "
            'monitor a name that fit prints, such as val_accuracy for metrics=["accuracy"], or val_loss'
        ),
        lazy_pattern(r"\w+Error: .{0,200}(?:[Nn]ot found|No such file|does not exist)"),
        needs=("tried save best model",),
    ),
    Situation(
        "keras-version-mismatch",
        Remedy(
            'Keras has no such backend: correct KERAS_BACKEND, or "backend" in ~/.keras/keras.json, to tensorflow, '
            "jax or torch",
            "KERAS_BACKEND=tensorflow python train.py",
            kind="environment",
        ),
        lazy_pattern(r"\w*Error: Unable to import backend ?: ?(?!tensorflow|jax|torch)\w"),
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "The validation data held no batch: it has fewer samples than validation_split or "
            "drop_remainder=True needs, "
            "or is a generator that is used up; count it (sum(1 for _ in validation_data))"
        ),
        _NO_ATTRIBUTE,
        frozenset({"fit"}),
        code="val_logs",
    ),
    Situation(
        "input-pipeline", _EMPTY_DATA, lazy_pattern(r"UnboundLocalError: .{0,60}'logs'"), frozenset({"fit", "evaluate"})
    ),
    Situation(
        "input-pipeline",
        _EMPTY_DATA,
        lazy_pattern(r"ZeroDivisionError:"),
        frozenset({"__init__", "__len__", "num_batches", "fit", "evaluate", "get_tf_dataset", "_shuffle_and_batch"}),
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "The folder holds no file that can be read as a class or an image: check the path and its subfolders, and "
            "that the files end in .jpg, .jpeg, .png, .bmp or .gif"
        ),
        lazy_pattern(r"(?:IndexError: list index out of range|ValueError: No images found)"),
        frozenset({"index_directory", "image_dataset_from_directory", "flow_from_directory", "__init__"}),
        needs=("phase data",),
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "The table lacks the column: print(frame.columns), and give x_col and y_col names that are in it (a blank "
            "before or after a name counts)"
        ),
        lazy_pattern(r"KeyError: "),
        frozenset({"get_loc", "_check_params", "_filter_valid_filepaths", "__getitem__"}),
        needs=("phase data",),
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "Each element of the data must be (x, y) or (x, y, sample_weight): print(next(iter(dataset))); put several "
            "inputs into one tuple or dict, ((x1, x2), y)"
        ),
        _UNPACKED,
        _OF_DATA,
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "A batch of the data is None or lacks its x: look at one (generator[0], next(iter(dataset))); every path "
            "through __getitem__ or the generator must give (x, y)"
        ),
        _NO_ATTRIBUTE,
        file="data_adapter",
    ),
    Situation(
        "input-pipeline",
        Remedy(
            "The path is not there: correct it, or make the folder; a relative one starts where the program was "
            "started (os.getcwd()), on Colab in /content"
        ),
        lazy_pattern(r"(?:FileNotFoundError|NotADirectoryError): "),
        needs=("phase data",),
    ),
    Situation(
        "no-gradients",
        Remedy(
            "A variable got no gradient: compute the loss inside the tape from the variables that are updated, "
            "and leave out "
            "the others: [(g, v) for g, v in zip(gradients, variables) if g is not None]"
        ),
        _NO_ATTRIBUTE,
        frozenset({"apply_gradients", "apply", "update_step", "_clip_gradients", "filter_empty_gradients"}),
    ),
    Situation(
        "keras-version-mismatch",
        Remedy(
            "The file was written by another major version of Keras: load it with that one, and save it as "
            ".keras; or build "
            "the model from its code and load the weights only"
        ),
        lazy_pattern(
            r"TypeError: string indices must be integers|AttributeError: '(?:str|list"
            r"|NoneType)' object has no attribute '"
            r"|TypeError: 'NoneType' object is not (?:callable|subscriptable)|KeyError: "
        ),
        frozenset(
            {"deserialize_keras_object", "deserialize", "from_config", "functional_from_config", "process_node"}
            | {"process_layer", "convert_custom_objects", "_revive_graph_network", "model_from_config"}
        ),
        needs=("phase load",),
    ),
    Situation(
        "checkpoint-failure",
        Remedy(
            "The file holds other weights than the model has: list them (h5py.File(path).visit(print)), and "
            "build the model "
            "by the code that wrote the file"
        ),
        lazy_pattern(r"KeyError: "),
        frozenset(
            {"load_weights_from_hdf5_group", "load_subset_weights_from_hdf5_group", "load_weights", "__getitem__"}
        ),
        needs=("phase load",),
    ),
    Situation(
        "shape-mismatch",
        Remedy(
            "Give the input its size: an axis that a layer must know is None; write it in keras.Input(shape=...), or "
            "reduce that axis first (GlobalAveragePooling)"
        ),
        lazy_pattern(r"TypeError: (?:unsupported operand type\(s\) for|int\(\) argument must be).{0,80}NoneType"),
        frozenset({"build", "compute_output_shape", "compute_output_spec", "prod", "standardize_shape"}),
    ),
    Situation(
        "device-oom",
        Remedy(
            "The optimizer's own variables did not fit, so a smaller batch does not help: use an optimizer that keeps "
            "fewer (SGD, Adafactor), or a smaller model"
        ),
        needs=("node weight slot",),
    ),
)


def situation_named(facts: LogFacts) -> Situation | None:
    """Return the situation that names the last error, or None if its words must do."""
    return next((each for each in SITUATIONS if each.error is not None and _is_met(each, facts)), None)


def situation_of(fault: str, facts: LogFacts) -> Situation | None:
    """Return the situation in which a fault occurred that is already known, or None."""
    return next((each for each in SITUATIONS if each.fault == fault and _is_met(each, facts)), None)


def _is_met(situation: Situation, facts: LogFacts) -> bool:
    place = facts.library_place
    function, file, code = (place.function, place.file, place.code) if place else ("", "", "")
    return (
        (situation.error is None or _raises(situation.error, facts))
        and (not situation.functions or function in situation.functions)
        and situation.file in file
        and situation.code in code
        and situation.own_code in _own_code(facts)
        and all(condition(each).is_met(facts) for each in situation.needs)
    )


def _own_code(facts: LogFacts) -> str:
    seen = facts.at_hand.script.statement if facts.at_hand and facts.at_hand.script else ""
    return " ".join((seen, facts.own_place.code)) if facts.own_place else seen


def _raises(error: re.Pattern[str], facts: LogFacts) -> bool:
    raised = facts.error
    return raised is not None and error.match(f"{raised.type_name}: {' '.join(raised.message)}") is not None
