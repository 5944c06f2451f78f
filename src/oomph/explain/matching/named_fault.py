"""Diagnosis: a fault that the evidence shows, with its confidence, evidence and remedies. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from math import isqrt, prod, sqrt
from types import MappingProxyType
from typing import NamedTuple

from oomph.explain.catalogue.fault import LINUX, Fault, Remedy, Signature
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.facts.fact import LogFacts, RaisedError
from oomph.explain.matching.advice import AdvisedRemedy, advice_for
from oomph.terminal.wrapping import shortened

_BY_OOMPH = re.compile(r"\boomph run( --resume)? train\.py(?!\S)")
_BY_PYTHON = re.compile(r"\bpython( -X faulthandler)? train\.py(?!\S)")
_PROGRAM = "--"


class OwnCommand(NamedTuple):
    """The command that started a run: `oomph run OPTIONS WORDS`."""

    options: tuple[str, ...] = ()
    """The options of `oomph run`, except those that identify the run."""
    words: tuple[str, ...] = ()
    """The script with its arguments, `-m` with a module, or `--` with a program; empty if unknown."""

    def put_into(self, command: str) -> str:
        """Replace `train.py` in a remedy's command with the script or program that the user runs."""
        if not self.words:
            return command
        command = _BY_OOMPH.sub(lambda found: self._by_oomph(found[1] or ""), command)
        return _BY_PYTHON.sub(lambda found: self._by_python(found[1] or "") or found[0], command)

    def _by_oomph(self, resume: str) -> str:
        return f"oomph run{resume} {shlex.join((*self.options, *self.words))}"

    def _by_python(self, option: str) -> str:
        """Return the command that runs the script with this Python option; empty if a program does not accept it."""
        if self.words[0] != _PROGRAM:
            return f"python{option} {shlex.join(self.words)}"
        return "" if option else shlex.join(self.words[1:])


_SIZES = ("found", "needed", "columns", "found_layers", "own_layers", "array")
_FLATTENED = 256
_TOP = 3
"""The maximum number of layers in the top of a model, such as pooling, dense and activation."""
_LONGEST = 18
"""The maximum number of digits in a size. A longer number cannot be a count of values."""


def derived(captured: Mapping[str, str]) -> dict[str, str]:
    """Derive values for the text of remedies from the values in the log.

    `misfit` says why the sizes before and after a reshape differ, `array_advice` does so for a NumPy array and its new
    shape, and `feature_advice` for a layer and its input. `layer_advice` says what to do about a file and a model with
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
    """Return the advice about layers: models with similar layer counts differ only at the top; others are unrelated."""
    if apart <= _TOP:
        return (
            "load the layers that match by name, model.load_weights(path, by_name=True), as they differ only in the "
            "last layers; or use a file or model with the same top (include_top, notop in the file name)"
        )
    return (
        "the file belongs to a different model. Load the file that this model wrote, or build the model that wrote it "
        "(the same function and options, include_top, number of classes); load_weights(path, by_name=True) loads only "
        "layers with the same names"
    )


def _of_features(columns: int, needed: int) -> str:
    """Return the advice about features: thousands of them come from a Flatten layer, and depend on the image size."""
    if min(columns, needed) < _FLATTENED:
        return (
            f"build it with input_shape=({columns},), or prepare the data as for training (Flatten gives a "
            "different size for a different image size; a single sample needs x[None])"
        )
    times = max(columns, needed) / min(columns, needed)
    size = "larger" if columns > needed else "smaller"
    return (
        f"Flatten gives this many for images about {sqrt(times):.1f} times {size} in each direction than the model was "
        "built for. Give data and input_shape the same size (target_size, image_size or tf.image.resize), or put "
        "GlobalAveragePooling2D() in place of Flatten()"
    )


def _axes(shape: str) -> tuple[int, ...]:
    return tuple(int(axis) for axis in shape.strip("() ").split(",") if _is_size(axis.strip()))


def _of_array(size: int, axes: tuple[int, ...]) -> str:
    """Explain why an array does not fill a shape, and suggest one that it would fill."""
    needed = prod(axes)
    times, rest = divmod(size, needed) if needed else (0, 1)
    side = isqrt(times)
    if len(axes) > 1 and not rest and times > 1 and side * side == times:
        return (
            f"it has {times} times as many, {side} x {side} for each: reshape to ({axes[0]}, {axes[-1]} * {side} * "
            f'{side}), or pool the height and width away first (GlobalAveragePooling2D, pooling="avg")'
        )
    return (
        "the number of samples, the image size or the number of channels differs from what the reshape assumes (colour "
        "images have 3 channels); use -1 for the number of samples"
    )


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST


def _misfit(found: int, needed: int) -> str:
    """Return the likely reason why a tensor with `found` values does not fit a reshape to (a multiple of) `needed`."""
    if not found or not needed:
        return "one of them is empty; look for a size of 0 in the shapes before it, most often an empty batch or image"
    if found % needed == 0:
        return _of_more(found // needed)
    if needed % found == 0:
        return _of_fewer(needed // found)
    return (
        "neither divides the other, so the number of classes or anchors, the image size or the sequence length of the "
        "data differs from the model's: make them match; or the last batch is smaller (drop_remainder=True)"
    )


def _of_more(times: int) -> str:
    if times == 3:
        return "three times as many: the images have 3 channels, but 1 is assumed; load them in greyscale (channels=1)"
    if times == 4:
        return "four times as many: the images are twice as high and wide as assumed, or have 4 channels; resize them"
    return f"{times} times as many: the reshape leaves out the batch; start the new shape with -1"


def _of_fewer(times: int) -> str:
    if times == 3:
        return "a third of it: the images have 1 channel, but 3 are assumed; load them in colour (channels=3)"
    if times == 4:
        return "a quarter of it: the images are half as high and wide as assumed; resize them to the model's input size"
    return (
        f"a fraction, 1/{times}: the reshape contains a fixed batch size, which a smaller batch does not fill; start "
        "the new shape with -1, or drop the last batch (drop_remainder=True)"
    )


CAUSE, CONSEQUENCE = "cause", "consequence"
SUSPICION = 0.2
"""The highest confidence of a diagnosis that merely suggests a different fault that would fit the same evidence."""


_MOST_PANELS, _MOST_QUOTED, _QUOTED = 2, 4, 300
"""The maximum number of diagnoses to show in a notebook, of facts to quote for each, and of characters of each fact."""
_SOMEWHERE = "the line that raised the error"
"""The placeholder for the user's own line of code if the evidence does not contain it."""


class Diagnosis(NamedTuple):
    """A fault, and the evidence that shows it."""

    fault: Fault
    role: str
    """"cause", or "consequence" if another detected fault led to it."""
    confidence: float
    """The confidence of the diagnosis, from 0 to 1."""
    evidence: tuple[Evidence, ...]
    """The facts that show the fault, in the order of observation; never empty."""
    captured: Mapping[str, str] = MappingProxyType({})
    """The values captured from the evidence, always as printed: shape, device, requested, signal, …"""
    signatures: tuple[Signature, ...] = ()
    """The signatures that the evidence matches, surest first."""
    systems: frozenset[str] = frozenset({LINUX})
    """The systems that the evidence comes from."""
    facts: LogFacts = LogFacts()
    """The facts about the program, the installation and the machine."""
    error: RaisedError | None = None
    """The exception by which the program showed the fault."""
    lent: tuple[Remedy, ...] = ()
    """The answers of another page to the evidence, if the fault's own page has none."""
    command: OwnCommand = OwnCommand()
    """The command that started the run that the evidence comes from."""
    outlasted_oomph: bool = False
    """True if the evidence comes from a run that gave up because of this fault, so that oomph's own remedies did not
    help."""

    def __repr__(self) -> str:
        facts = len(self.evidence)
        return f"Diagnosis({self.code} {self.name}, {self.role}, {self.confidence:.0%} sure, evidence={facts})"

    def __str__(self) -> str:
        return f"{self.name} ({self.code}), {self.role}, {self.confidence:.0%} sure: {self.fault.summary}"

    def _repr_html_(self) -> str:
        """Return the diagnosis as a panel for notebooks."""
        from oomph.terminal import panel

        quoted = [shortened(fact.text.strip(), _QUOTED) for fact in self.evidence]
        kept, more = panel.cut(quoted, _MOST_QUOTED)
        return panel.panel(
            f"{self.name} ({self.code}), {self.role}, {self.confidence:.0%} sure",
            [
                panel.paragraph(self.fault.summary),
                *map(panel.code, kept),
                *([panel.paragraph(f"... and {more} more facts", quiet=True)] if more else []),
                panel.items([_with_command(remedy) for remedy in self.remedies], numbered=True),
            ],
            panel.Tone.BAD if self.role == CAUSE else panel.Tone.WARNING,
        )

    @property
    def code(self) -> str:
        """The fault's code, such as OOM101."""
        return self.fault.code

    @property
    def name(self) -> str:
        """The fault's name, such as device-oom."""
        return self.fault.name

    @property
    def is_advised(self) -> bool:
        """True if a wording of the evidence has its own remedies."""
        return any(signature.advice for signature in self.signatures)

    @property
    def advice(self) -> tuple[AdvisedRemedy, ...]:
        """The remedies, best first, each with how well it fits; the page of plain Python errors has none of its own."""
        values = {"where": _SOMEWHERE, **derived(self.captured), **self.captured}
        line = next((fact.line for fact in self.evidence if fact.line is not None), None)
        texts = [fact.text for fact in self.evidence]
        given = advice_for(
            self.fault, self.signatures, self.systems, values, self.facts, self.error, line, texts, self.lent
        )
        if self.outlasted_oomph:
            given = tuple(sorted(given, key=lambda each: bool(each.remedy.action)))
        return tuple(self._with_own_command(each) for each in given)

    def _with_own_command(self, advised: AdvisedRemedy) -> AdvisedRemedy:
        remedy = advised.remedy
        return advised._replace(remedy=remedy._replace(command=self.command.put_into(remedy.command)))

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """The remedies, best first, with the captured values and the run's command filled in."""
        return tuple(each.remedy for each in self.advice)


class Diagnoses(tuple[Diagnosis, ...]):
    """All diagnoses of the same evidence, most relevant first."""

    facts: LogFacts
    """The facts in the evidence, even if it shows no fault."""

    def __new__(cls, diagnoses: Iterable[Diagnosis] = (), facts: LogFacts | None = None) -> Diagnoses:
        """Put the diagnoses together with the facts of their evidence, by default those of the first one."""
        made = super().__new__(cls, diagnoses)
        made.facts = facts or (made[0].facts if made else LogFacts())
        return made

    def with_facts(self, facts: LogFacts) -> Diagnoses:
        """Return the same diagnoses with other facts, from which their remedies follow."""
        return Diagnoses((each._replace(facts=facts) for each in self), facts)

    def with_command(self, command: OwnCommand, lost: str) -> Diagnoses:
        """Return the same diagnoses with the run's command, and the name of the fault that made it give up."""
        with_it = (each._replace(command=command, outlasted_oomph=each.name == lost) for each in self)
        return Diagnoses(with_it, self.facts)

    def _repr_html_(self) -> str:
        """Return the first diagnosis and other likely ones as panels for notebooks."""
        told = [each for place, each in enumerate(self[:_MOST_PANELS]) if place == 0 or each.confidence > SUSPICION]
        return "".join(each._repr_html_() for each in told) or "<div>no fault found</div>"


def _with_command(remedy: Remedy) -> str:
    return f"{remedy.titled}: {remedy.command}" if remedy.command else remedy.titled
