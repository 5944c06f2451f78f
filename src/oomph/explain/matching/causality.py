"""Distinguishes causes from consequences among the detected faults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oomph.explain.catalogue.fault import Fault

# Ranks write to the same log in any order, so a rank may report a lost peer before the peer's own error appears.
OF_PEERS = frozenset({"worker-lost", "nccl-failure", "hang"})

_SUSPICION = 0.45  # a fault more doubtful than this does not explain away a surer one


class FaultPlace(NamedTuple):
    """The point in the evidence at which a fault starts."""

    story: int
    """The number of times that training continued after a failure before this fault."""
    position: int
    doubt: float
    """1 minus the confidence. If two faults match the same words, the surer one comes first."""
    end: int = 0
    """The position of a later line that states the reason, such as the `what():` line of an uncaught exception."""


def consequences(places: Mapping[Fault, FaultPlace]) -> frozenset[Fault]:
    """Return the faults caused by another fault in the same story."""
    return frozenset(fault for fault in places if any(_leads(other, fault, places) for other in places))


def _leads(cause: Fault, fault: Fault, places: Mapping[Fault, FaultPlace]) -> bool:
    linked = fault.name in cause.leads_to or (fault.follows_any and not cause.passes)
    before, after = places[cause], places[fault]
    if cause is fault or not linked or (before.story != after.story and not _is_of_machine(cause)):
        return False
    if before.position == after.position and cause.name in fault.leads_to and fault.name not in cause.leads_to:
        return False  # the same words show both, and `fault` is known to lead to `cause`
    if cause.follows_any and cause.name in fault.leads_to and before.position <= after.position <= before.end:
        return False  # `fault` is the reason that `cause` itself states
    if before.doubt > _SUSPICION and before.doubt > after.doubt and not fault.follows_any:
        return False
    if fault.looks_back and cause.name in fault.leads_to and after.doubt <= _SUSPICION:
        return False
    if fault.name in OF_PEERS and cause.name not in (*OF_PEERS, *fault.leads_to):
        return True
    if before.position == after.position and not fault.follows_any:
        if cause.name not in fault.leads_to:
            return True
        return (before.doubt, cause.code) < (after.doubt, fault.code)  # the same words: the surer one is the cause
    if fault.follows_any and before.position <= after.end:
        return True
    return before.position <= after.position or cause.looks_back


def _is_of_machine(fault: Fault) -> bool:
    """True for a machine fault that ends programs. The log may show it before or after the programs' errors."""
    return fault.domain == "hardware" and not fault.passes
