"""Reads from the user's own calls what they say about a fault: the batch size of `fit`, the loss of `compile`. Pure.

One function for each mistake. Each returns a remedy that names the line to change, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oomph.explain.catalogue.fault import Remedy
from oomph.explain.facts.at_hand import ScriptCall, SeenScript
from oomph.explain.facts.fact import LogFacts
from oomph.files.patterns import lazy_pattern

_SPARSE, _ONE_HOT = "sparse_categorical_crossentropy", "categorical_crossentropy"
_OF_LABELS = lazy_pattern(r"logits shape \[\d+,(?P<classes>\d+)\] and labels shape \[(?P<labels>\d+)\]")
_ONE_AXIS_MORE = "`target.ndim - 1`"
_RANGE = lazy_pattern(
    r"label value of (?P<label>\d{1,9}) which is outside the valid range of \[0, (?P<classes>\d{1,9})\)"
)


def script_remedy(fault: str, facts: LogFacts) -> Remedy | None:
    """Return what to change in the script, if its calls show the mistake."""
    script = facts.at_hand.script if facts.at_hand else None
    if script is None:
        return None
    message = " ".join(facts.error.message) if facts.error else ""
    return next((found for each in _BY_FAULT.get(fault, ()) if (found := each(script, message, facts))), None)


def _one_hot_loss_of_class_numbers(script: SeenScript, message: str, facts: LogFacts) -> Remedy | None:
    call = _compiled_with(script, _ONE_HOT)
    pairs = ({pair.first[-1:], pair.second[-1:]} for pair in facts.shapes)
    if call is None or not any((1,) in pair and len(pair) == 2 for pair in pairs):
        return None
    return _change(script, call, f'the labels are class numbers: use loss="{_SPARSE}"')


def _class_number_loss_of_one_hot(script: SeenScript, message: str, facts: LogFacts) -> Remedy | None:
    call, sizes = _compiled_with(script, _SPARSE), _OF_LABELS.search(message)
    is_flat = sizes is not None and not int(sizes["labels"]) % int(sizes["classes"])
    if call is None or not (is_flat or _ONE_AXIS_MORE in message):
        return None
    return _change(script, call, f'the labels are one-hot: use loss="{_ONE_HOT}"')


def _too_few_classes(script: SeenScript, message: str, facts: LogFacts) -> Remedy | None:
    found = _RANGE.search(message)
    last = next(reversed(script.calls_of("Dense")), None)
    if found is None or last is None or last.arguments.get("0", last.arguments.get("units")) != found["classes"]:
        return None
    more = int(found["label"]) + 1
    return _change(script, last, f"the labels reach {found['label']}: Dense({more}), or labels that start at 0")


def _steps_without_repeat(script: SeenScript, message: str, facts: LogFacts) -> Remedy | None:
    call = next((each for each in script.calls_of("fit") if "steps_per_epoch" in each.arguments), None)
    if call is None or script.calls_of("repeat"):
        return None
    return _change(script, call, "leave steps_per_epoch out, or put .repeat() at the end of the data set")


def _loss_without_a_gradient(script: SeenScript, message: str, facts: LogFacts) -> Remedy | None:
    call = next((each for name in _WITHOUT_GRADIENT for each in script.calls_of(name)), None)
    return None if call is None else _change(script, call, "it has no gradient: keep it out of the loss")


_WITHOUT_GRADIENT = ("argmax", "round", "floor", "numpy")
_BY_FAULT: Mapping[str, tuple[Callable[[SeenScript, str, LogFacts], Remedy | None], ...]] = {
    "shape-mismatch": (_one_hot_loss_of_class_numbers, _class_number_loss_of_one_hot),
    "label-out-of-range": (_too_few_classes,),
    "input-pipeline": (_steps_without_repeat,),
    "no-gradients": (_loss_without_a_gradient,),
}


def _compiled_with(script: SeenScript, loss: str) -> ScriptCall | None:
    return next((each for each in script.calls_of("compile") if _said(each) == loss), None)


def _said(call: ScriptCall) -> str:
    return call.arguments.get("loss", call.arguments.get("1", "")).strip("'\"")


def _change(script: SeenScript, call: ScriptCall, what: str) -> Remedy:
    return Remedy(f"{script.file}:{call.line}, {call.name}: {what}")
