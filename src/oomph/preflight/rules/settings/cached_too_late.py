"""Random numbers, or an order, that a cache freezes."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SETTINGS, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    stages = training.data.stages
    cache = next((index for index, stage in enumerate(stages) if stage.kind == "cache"), None)
    if cache is None or training.fit.epochs < 2:
        return
    drawn = next((stage for stage in stages[:cache] if stage.is_random), None)
    if drawn is not None:
        named = f" {drawn.function}" if drawn.function not in ("", "<lambda>") else ""
        yield Finding(
            f"the random numbers of the map{named} are drawn before the cache: every epoch repeats the first one's",
            "Cache before the random stage",
            f"dataset.cache().map({drawn.function or 'augment'})",
            where=drawn.place,
        )
        return
    kinds = [stage.kind for stage in stages]
    shuffled = next((stage for stage in stages[:cache] if stage.kind == "shuffle"), None)
    is_batched = "batch" in kinds[:cache]  # as Keras' own directory loaders do, before the cache that its guides add
    if shuffled is not None and not is_batched and shuffled.reshuffles is not False and "shuffle" not in kinds[cache:]:
        yield Finding(
            "the samples are shuffled before the cache: every epoch takes them in the order of the first one",
            "Cache before the shuffle",
            "dataset.cache().shuffle(buffer_size)",
        )


RULE = Rule(
    code="CHK311",
    name="cached-too-late",
    severity=WARNING,
    depth=SETTINGS,
    why=("The first epoch is stored: each later one repeats its augmentation, or its order, exactly."),
    wrong="dataset.map(augment).cache()",
    right="dataset.cache().map(augment)",
    find=_find,
)
