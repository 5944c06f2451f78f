"""Random transformations of images, but not of their masks."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, MODEL, Finding, Rule

_MOVE = (
    "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom", "RandomCrop", "RandomShear", "RandomPerspective",
    "RandomElasticTransform",
)  # fmt: skip


def _find(training: Training) -> Iterator[Finding]:
    for stage in training.data.stages:
        if stage.moves_alone:
            yield Finding(
                "the map flips or shifts the images at random, but not their masks",
                "Transform both with the same random numbers",
                where=stage.place,
            )
            return
    layer = next((layer for layer in training.model.layers if layer.kind in _MOVE and layer.is_keras), None)
    sizes = [each.shape[1:3] for each, _ in training.inputs() if len(each.shape) == 4]
    for output, target in training.pairs():
        if layer is None or target.shape is None or len(target.shape) < 3 or output.shape is None:
            continue
        if output.shape[1:3] in sizes and None not in output.shape[1:3] and target.shape[1:3] == output.shape[1:3]:
            yield Finding(
                f"{layer.kind} in the model moves the images, but not {target.name}, which has their size",
                "Transform both in the dataset, with the same random numbers",
                "dataset.map(flip_both)",
            )
            return


RULE = Rule(
    code="CHK233",
    name="targets-not-moved",
    severity=ERROR,
    depth=MODEL,
    why="For every image that was moved, the mask marks the wrong place.",
    wrong="RandomFlip() as the first layer of a U-Net",
    right="one flip of image and mask, in Dataset.map",
    find=_find,
)
