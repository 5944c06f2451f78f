"""A target that is the input."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import ERROR, SAMPLE, Finding, Rule
from oomph.preflight.rules.losses import is_sparse

_FEWEST = 20


def _find(training: Training) -> Iterator[Finding]:
    parts = training.data.of("x")
    for output, target in training.pairs():
        if (
            not is_sparse(output.loss)
            or len(target.shape or ()) < 2
            or target.sample is None
            or target.sample.rows < _FEWEST
        ):
            continue
        if any(part.equals_target and len(part.shape or ()) == len(target.shape or ()) for part in parts):
            yield Finding(
                f"{target.name} is the same as the input, word by word: each word is predicted from itself",
                "Shift the target by one place",
                "x, y = tokens[:, :-1], tokens[:, 1:]",
            )


RULE = Rule(
    code="CHK422",
    name="target-not-shifted",
    severity=ERROR,
    depth=SAMPLE,
    why="The model copies what it gets: the loss falls to 0, and nothing is predicted.",
    wrong="language_model.fit(tokens, tokens)",
    right="language_model.fit(tokens[:, :-1], tokens[:, 1:])",
    find=_find,
)
