"""Images that were scaled twice."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SAMPLE, WARNING, Finding, Rule

_TINY = 2.0 / 255


def _find(training: Training) -> Iterator[Finding]:
    factor = next(
        (layer["scale"] for layer in training.model.layers if layer.kind == "Rescaling" and layer.is_keras), None
    )
    for part in training.data.of("x"):
        sample, rank = part.sample, len(part.shape or ())
        is_image = (rank == 4 and (part.shape or (0,))[-1] in (1, 3, 4)) or rank == 3
        if sample is None or not is_image or sample.maximum is None or (sample.minimum or 0) < 0 or sample.maximum == 0:
            continue
        if sample.maximum <= _TINY and not sample.zero_one:
            yield Finding(
                f"{part.name} goes from {sample.minimum:.2g} to {sample.maximum:.2g}: it was divided by 255 twice",
                "Divide once",
            )
        elif isinstance(factor, (int, float)) and abs(factor) < 0.01 and sample.maximum <= 1.0 and sample.rows > 1:
            yield Finding(
                f"{part.name} goes to {sample.maximum:.2g} already, and the model multiplies it by {factor:.4f}",
                "Scale in one place only: leave the division or the Rescaling layer out",
            )


RULE = Rule(
    code="CHK410",
    name="scaled-twice",
    severity=WARNING,
    depth=SAMPLE,
    why=("With values of 0 to 0.004 all images look black to the model: it learns slowly or not at all."),
    wrong="images / 255.0 before a model with Rescaling(1 / 255)",
    right="one of the two",
    find=_find,
    hides=("image-range",),
)
