"""An embedding that is smaller than the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.model import Layer, Model
from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    for source in model.layers:
        ids = source["vocabulary_size"]
        if not source.is_keras or not isinstance(ids, int):
            continue
        for layer in _behind(model, source):
            rows = layer["input_dim"]
            if layer.kind == "Embedding" and layer.is_keras and isinstance(rows, int) and rows < ids:
                yield Finding(
                    f"{source.name} gives ids up to {ids - 1:,}, and {layer.name} has {rows:,} rows",
                    "Give the embedding a row for each word",
                    f"Embedding({source.name}.vocabulary_size(), {layer['output_dim']})",
                )


def _behind(model: Model, source: Layer) -> Iterator[Layer]:
    """The layers that take its output; of a model that is not built, the next one."""
    if source.feeds:
        yield from (layer for name in source.feeds if (layer := model.layer(name)) is not None)
    elif model.kind == "Sequential":
        place = model.layers.index(source) + 1
        yield from model.layers[place : place + 1]


RULE = Rule(
    code="CHK230",
    name="vocabulary-exceeds-embedding",
    severity=ERROR,
    depth=MODEL,
    why="On a CPU the step fails at the first such word. On a GPU TensorFlow silently returns zeros for it.",
    wrong="Embedding(1000, 64) behind TextVectorization(max_tokens=20_000)",
    right="Embedding(vectorize.vocabulary_size(), 64)",
    find=_find,
    hides=("step-fails",),
)
