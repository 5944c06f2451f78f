"""A plan for the tests that contains everything; its sizes are round numbers, not those of a real network."""

from __future__ import annotations

from typing import Any

from oomph.planning.plan import Device, Estimate, Fitting, Interval, Item, Layer, MemoryMoment, Plan, Saver

MIB, GIB = 2**20, 2**30
DEVICE = Device("GeForce RTX 4090", 24 * GIB, 22 * GIB)
WORDS = ("train.py", "--epochs", "3")


def around(size: int) -> Interval:
    return Interval(size * 9 // 10, size, size * 11 // 10)


def exactly(size: int) -> Interval:
    return Interval(size, size, size)


def plan(**changes: Any) -> Plan:
    known: dict[str, Any] = {
        "engine": "graph",
        "accuracy": "between 3 % below and 8 % above the measured peaks",
        "subject": "ResNet50, 25.6 M parameters, Adam, float32",
        "place": "train.py:42",
        "batch": 32,
        "estimates": (
            Estimate(32, around(2 * GIB), Fitting.YES),
            Estimate(512, around(32 * GIB), Fitting.NO),
        ),
        "curve": tuple((2**n, around(2**n * 64 * MIB)) for n in range(8)),
        "device": DEVICE,
        "max_batch": 320,
        "micro_batch": 320,
        "items": (
            Item("weights", exactly(98 * MIB), "counted"),
            Item("activations", around(1500 * MIB), "estimated"),
            Item("CUDA context", around(400 * MIB), "assumed", "the vendor's list"),
        ),
        "layers": tuple(Layer(f"block_{n}", n * 10 * MIB) for n in range(1, 9)),
        "peak_operation": "Conv2DBackpropInput",
        "timeline": tuple(MemoryMoment(f"operation {n}", (100 + n * (20 - n)) * MIB) for n in range(20)),
        "savers": (
            Saver("mixed_bfloat16", around(1200 * MIB), "computes in bfloat16; changes the result", "set_policy('x')"),
            Saver("recomputation", None, "not planned: no layer is repeated", ""),
        ),
        "notes": ("The workspace of cuDNN is assumed.",),
    }
    return Plan(**{**known, **changes})
