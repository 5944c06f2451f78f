"""Text where the model takes numbers."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule

_TAKE_TEXT = ("TextVectorization", "StringLookup", "Hashing", "HashedCrossing", "FeatureSpace", "IntegerLookup")


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    known = {part.name: given.dtype for given, part in training.inputs()}
    takes = any(layer.kind in _TAKE_TEXT or not layer.is_keras for layer in model.layers)
    for part in training.data.of("x"):
        is_refused = known[part.name] != "string" if part.name in known else not takes
        if part.dtype == "string" and is_refused and not (model.own_call or model.own_train_step):
            yield Finding(
                f"{part.name} is text, and the model takes numbers",
                "Turn the text into numbers first: TextVectorization for sentences, StringLookup for categories",
                "dataset.map(lambda text, label: (vectorize(text), label))",
            )


RULE = Rule(
    code="CHK108",
    name="text-input",
    severity=ERROR,
    depth=SPEC,
    why='The step fails: "Cast string to float is not supported".',
    wrong="model.fit(reviews, labels) with Dense as the first layer",
    right="model = Sequential([TextVectorization(...), Embedding(...), ...])",
    find=_find,
    hides=("step-fails", "input-shape"),
    fault="dtype-mismatch",
)
