"""The digest by which another process recognises a step, whatever the script and its layers are called."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from oomph.planning.live.tracing import Traced


def identity_of(traces: Sequence[Traced]) -> str:
    """A digest of what a step computes: the kinds of its operations, and the sizes of what each of them makes.

    Weights, optimizer, precision and the shapes of the data all decide which operations there are, and their sizes. So
    a model with other images, or in float16, is another step.
    """
    told = [
        [trace.batch, sorted([made.kind, *(trace.flat.sizes[tensor] for tensor in made.outputs)] for made in
        trace.flat.operations)] for trace in traces
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
