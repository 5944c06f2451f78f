"""float16 without what makes it safe."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import MODEL, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    model = training.model
    halves = [layer.name for layer in model.layers if layer.variable_dtype == "float16" and layer.weights.trainable]
    if halves:
        yield Finding(
            f"the weights of {len(halves)} layers are float16: updates below a thousandth of a weight are lost",
            "Use mixed precision: it computes in float16 and keeps the weights in float32",
            'keras.mixed_precision.set_global_policy("mixed_float16")',
        )
    elif any(layer.compute_dtype == "float16" for layer in model.layers) and not model.optimizer.scales_loss:
        yield Finding(
            "layers compute in float16, and the optimizer does not scale the loss: small gradients become 0",
            "Wrap the optimizer, and take the gradients of optimizer.scale_loss(loss)",
            "optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)",
        )


RULE = Rule(
    code="CHK220",
    name="float16-weights",
    severity=WARNING,
    depth=MODEL,
    why=("Small gradients become 0 in float16. Loss scaling keeps them; weights in float16 also lose small updates."),
    wrong='keras.config.set_floatx("float16")',
    right='keras.mixed_precision.set_global_policy("mixed_float16")',
    find=_find,
)
