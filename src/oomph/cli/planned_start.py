"""`oomph run --plan`: the micro-batch to begin with, so that no step runs out of memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from oomph.cli.output import say
from oomph.cli.planning import planned, request_for
from oomph.errors import OomphError


def planned_micro_batch(words: Sequence[str], python: str | None) -> int | None:
    """The largest micro-batch that fits the device of this run, for the script's first training.

    None, after a line that says so, if its batch fits or nothing can be planned: the run then begins as it would
    without a plan.
    """
    from oomph.planning.device import device_of, pool_of

    try:
        device = pool_of(os.environ) or device_of(None, os.environ, say)
        if device is None:
            say("--plan has no effect: there is no GPU here, and no limit for the CPU's memory pool")
            return None
        plan = planned(request_for(words, python, device))
    except OomphError as error:
        say(f"--plan has no effect: {error}")
        return None
    if plan.max_batch is None:
        say(f"--plan has no effect: {plan.why_open or 'which batch fits is not known'}")
        return None
    if plan.batch <= plan.max_batch:
        say(f"the batch of {plan.batch} at {plan.place} should fit: up to {plan.max_batch:,} should")
        return None
    if not plan.micro_batch:
        say(f"not even micro-batches of one sample are sure to fit at {plan.place}; the run begins as without --plan")
        return None
    say(f"the batch of {plan.batch} at {plan.place} may not fit: it is trained in micro-batches of {plan.micro_batch}")
    return plan.micro_batch
