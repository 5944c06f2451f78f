"""Ids that an embedding has no row for."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.data import Part
from oomph.preflight.facts.model import Layer, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    for given, part in training.inputs():
        layer = _embedding_of(model, given.name)
        yield from _finding(part, layer) if layer is not None else ()
    if (
        model.kind == "Sequential"
        and not model.inputs
        and len(training.data.of("x")) == 1
        and model.layers
        and model.layers[0].kind == "Embedding"
    ):
        yield from _finding(training.data.of("x")[0], model.layers[0])


def _embedding_of(model: Model, name: str) -> Layer | None:
    """The embedding that reads this input directly."""
    given = model.layer(name)
    names = given.feeds if given is not None else ()
    followers = [layer for each in names if (layer := model.layer(each)) is not None]
    if not followers and model.layers and model.layers[0].kind == "Embedding" and len(model.inputs) == 1:
        followers = [model.layers[0]]
    found = [layer for layer in followers if layer.kind == "Embedding" and layer.is_keras]
    return min(found, key=lambda layer: layer["input_dim"] or 0, default=None)


def _finding(part: Part, layer: Layer) -> Iterator[Finding]:
    sample, rows = part.sample, layer["input_dim"]
    if sample is None or sample.minimum is None or sample.maximum is None or not isinstance(rows, int):
        return
    if not sample.is_integral:
        yield Finding(
            f"{part.name} holds fractions from {sample.minimum:.3g} to {sample.maximum:.3g}, and "
            f"{layer.name} takes ids: "
            "fractions are cut off",
            "Give whole numbers",
        )
    elif sample.maximum >= rows or sample.minimum < 0:
        yield Finding(
            f"ids in {part.name} go from {sample.minimum:.0f} to {sample.maximum:.0f}, and {layer.name} has "
            f"{rows} rows: "
            f"valid is 0..{rows - 1}",
            "Give the embedding a row for each id: the largest id and 1"
            if sample.minimum >= 0
            else "Number ids from 0",
            f"Embedding({int(sample.maximum) + 1}, {layer['output_dim']})" if sample.minimum >= 0 else "",
        )


RULE = Rule(
    code="CHK415",
    name="id-out-of-range",
    severity=ERROR,
    depth=SAMPLE,
    why=("On a CPU the step fails. On a GPU TensorFlow returns zeros for them, and nothing is learnt for these ids."),
    wrong="Embedding(10_000, 64) for ids up to 10,000",
    right="Embedding(10_001, 64)",
    find=_find,
    hides=("step-fails",),
)
