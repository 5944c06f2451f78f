"""Explanations derived from the values in a log: why two sizes differ, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt, prod, sqrt

_SIZES = ("found", "needed", "columns", "found_layers", "own_layers", "array")
_FLATTENED = 256
_TOP = 3
"""The most layers in the top of a model: pooling, dense, activation."""
_LONGEST = 18
"""The most digits of a size; a longer number does not count values."""


def derived(captured: Mapping[str, str]) -> dict[str, str]:
    """Values for the texts of remedies, from what the log names.

    `misfit`: why the sizes before and after a reshape differ; `array_advice`: the same of a NumPy array and its new
    shape; `feature_advice`: the same of a layer and its input; `layer_advice`: what to do about a file and a model of
    different numbers of layers.
    """
    sizes = {name: int(text) for name, text in captured.items() if name in _SIZES and _is_size(text)}
    values = dict[str, str]()
    if {"found", "needed"} <= sizes.keys():
        values["misfit"] = _misfit(sizes["found"], sizes["needed"])
    if {"found_layers", "own_layers"} <= sizes.keys():
        values["layer_advice"] = _of_layers(abs(sizes["found_layers"] - sizes["own_layers"]))
    if {"columns", "needed"} <= sizes.keys():
        values["feature_advice"] = _of_features(sizes["columns"], sizes["needed"])
    if "array" in sizes and "shape" in captured:
        values["array_advice"] = _of_array(sizes["array"], _axes(captured["shape"]))
    return values


def _of_layers(apart: int) -> str:
    """Say what to do: nearly equal models differ in their top; others are different models."""
    if apart <= _TOP:
        return (
            "load what fits by name, model.load_weights(path, by_name=True), as they differ only in the last layers; "
            "or take the file or the model with the same top (include_top, notop in the name of the file)"
        )
    return (
        "the file is of another model. Give the file that this model wrote, or build the model that wrote it (the same "
        "function and options, include_top, number of classes); load_weights(path, by_name=True) loads only what has "
        "the same names"
    )


def _of_features(columns: int, needed: int) -> str:
    """Say what to do: thousands of features come from a Flatten, and depend on image size."""
    if min(columns, needed) < _FLATTENED:
        return (
            f"build it with input_shape=({columns},), or prepare the data as for the training (a Flatten before it "
            "gives another size for another image size; a single sample needs x[None])"
        )
    times = max(columns, needed) / min(columns, needed)
    size = "larger" if columns > needed else "smaller"
    return (
        f"Flatten gives so many for images that are about {sqrt(times):.1f} times {size} each way than the model was "
        "built for. Give data and input_shape the same size (target_size, image_size or tf.image.resize), or put "
        "GlobalAveragePooling2D() in place of Flatten()"
    )


def _axes(shape: str) -> tuple[int, ...]:
    return tuple(int(axis) for axis in shape.strip("() ").split(",") if _is_size(axis.strip()))


def _of_array(size: int, axes: tuple[int, ...]) -> str:
    """Explain why an array does not fill a shape, and which shape it would fill."""
    needed = prod(axes)
    times, rest = divmod(size, needed) if needed else (0, 1)
    side = isqrt(times)
    if len(axes) > 1 and not rest and times > 1 and side * side == times:
        return (
            f"it has {times} times as many, {side} x {side} for each: reshape to ({axes[0]}, {axes[-1]} * {side} * "
            f'{side}), or pool the height and width away before (GlobalAveragePooling2D, pooling="avg")'
        )
    return (
        "number of samples, image size or channels are others than the reshape assumes (colour has 3); use -1 for the "
        "number of samples"
    )


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


def _misfit(found: int, needed: int) -> str:
    """The likeliest reason why a tensor of `found` values does not fit a reshape to (a multiple of) `needed`."""
    if not found or not needed:
        return "one of them is empty; look for a size of 0 in the shapes before it, most often an empty batch or image"
    if found % needed == 0:
        return _of_more(found // needed)
    if needed % found == 0:
        return _of_fewer(needed // found)
    return (
        "neither divides the other, so the number of classes or anchors, the image size or the sequence length of the "
        "data is another than that of the model: give both the same; or the last batch is smaller (drop_remainder=True)"
    )


def _of_more(times: int) -> str:
    if times == 3:
        return "three times as many: the images have 3 channels and 1 is assumed; load them in grey (channels=1)"
    if times == 4:
        return "four times as many: the images are twice as high and wide as assumed, or have 4 channels; resize them"
    return f"{times} times as many: the reshape leaves out the batch; begin the new shape with -1"


def _of_fewer(times: int) -> str:
    if times == 3:
        return "a third of it: the images have 1 channel and 3 are assumed; load them in colour (channels=3)"
    if times == 4:
        return "a quarter of it: the images are half as high and wide as assumed; resize them to the model's input size"
    return (
        f"a fraction, 1/{times}: the reshape holds a fixed batch size, which a smaller batch does not fill; begin the "
        "new shape with -1, or drop the last batch (drop_remainder=True)"
    )
