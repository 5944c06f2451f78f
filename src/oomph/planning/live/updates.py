"""Finds the operations of the optimizer's update in a step, by the scopes in their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from oomph.planning.layers import is_gradient

_NUMBER = re.compile(r"_\d{1,4}\Z")


def is_update_of(optimizers: Iterable[Any]) -> Callable[[str], bool]:
    """A function that returns True if an operation of this name belongs to the update of one of these optimizers.

    Loss scaling puts its inner optimizer's update into a condition: "cond/cond/adam_1/Square_4".
    """
    inner = [(each, getattr(each, "inner_optimizer", each)) for each in optimizers]
    names = {optimizer.name for pair in inner for optimizer in pair}

    def is_update(operation: str) -> bool:
        if is_gradient(operation):
            return False
        return any(scope in names or _NUMBER.sub("", scope) in names for scope in operation.split("/")[:-1])

    return is_update
