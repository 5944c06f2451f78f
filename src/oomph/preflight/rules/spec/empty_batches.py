"""Empty batches."""

from __future__ import annotations

from collections.abc import Iterator

from oomph.preflight.facts.training import Training
from oomph.preflight.rule import SPEC, WARNING, Finding, Rule


def _find(training: Training) -> Iterator[Finding]:
    for data, words in ((training.data, "training"), (training.validation, "validation")):
        if data is not None and data.empty_batch is not None:
            of = f" of {data.batches:,}" if data.batches is not None and data.batches > 0 else ""
            yield Finding(
                f"batch {data.empty_batch + 1:,}{of} of the {words} data holds no samples",
                "Return the number of batches from __len__",
                "return math.ceil(len(self.x) / self.batch_size)",
            )


RULE = Rule(
    code="CHK124",
    name="empty-batches",
    severity=WARNING,
    depth=SPEC,
    why="Each one is a step without data: momentum still moves the weights, and the mean loss is wrong.",
    wrong="def __len__(self): return len(self.x)",
    right="def __len__(self): return math.ceil(len(self.x) / self.batch_size)",
    find=_find,
)
