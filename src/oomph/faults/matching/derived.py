"""What follows from the values that a log names: why two sizes differ, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_LONGEST = 18
"""Digits of a size that is looked at; more than this is no number of values."""


def derived(captured: Mapping[str, str]) -> dict[str, str]:
    """Values for the texts of remedies: `misfit`, when the log gives the sizes before and after a reshape."""
    found, needed = captured.get("found", ""), captured.get("needed", "")
    if not (_is_size(found) and _is_size(needed)):
        return {}
    return {"misfit": _misfit(int(found), int(needed))}


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
