"""Images with their channels first, for layers that want them last."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SPEC, Finding, Rule
from oomph.preflight.rules.shapes import agree, in_words

_CHANNELS = (1, 3, 4)


def _find(training: Training) -> Iterator[Finding]:
    for given, part in training.inputs():
        shape = part.shape
        if shape is None or len(shape) != 4 or len(given.shape) != 4 or agree(shape, given.shape):
            continue
        turned = (shape[0], shape[2], shape[3], shape[1])
        if shape[1] in _CHANNELS and agree(turned, given.shape):
            yield Finding(
                f"{part.name} has the shape {in_words(shape)}: {shape[1]} channels come first; the model takes "
                f"{in_words(given.shape)}",
                "Move the channels to the end",
                f"{part.name} = np.moveaxis({part.name}, 1, -1)",
            )


RULE = Rule(
    code="CHK104",
    name="channels-first",
    severity=ERROR,
    depth=SPEC,
    why="Keras refuses the shape; where sizes happen to agree it convolves over the wrong axes.",
    wrong="images.shape == (1000, 3, 32, 32)",
    right="images = images.transpose(0, 2, 3, 1)",
    find=_find,
    hides=("input-shape", "step-fails"),
)
