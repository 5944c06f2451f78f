"""What the engine `xla-gpu` of `oomph plan` says of a step, and what it takes to say it. Needs the extra `oomph[xla]`.

    python benchmarks/plan_xla.py [--gpu NAME] [--only NAME] [--batches N,N]

The models are those of benchmarks/plan_models/development.py. For each batch size the step is compiled for the GPU,
which need not be there. The last column is the upper bound that the smallest size alone would have given, in proportion
to the batch, divided by what was compiled: it must not be below 1. Nothing is compared with a real GPU.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from plan_accuracy import FOLDER, MIB, batch_of, load

NAMES = ("convolutions", "transformer", "resnet50")


def measure(model: Any, batch: Any, size: int, target: Any, memory: int) -> tuple[Any, float]:
    """What XLA assigns at this size, and the seconds that TensorFlow took to hand the step over."""
    from oomph.planning.live import samples
    from oomph.planning.live.compiled_step import serialized
    from oomph.planning.xla.compiling import compile_step, description
    from oomph.process.available_memory import available_bytes

    began = time.monotonic()
    step = serialized(model, samples.specification(batch), samples.size_of(batch), size)
    handed_over = time.monotonic() - began
    return compile_step(step, description(target, memory), 600, available_bytes()), handed_over


def rows(name: str, sizes: list[int], gpu: Any) -> None:
    import tensorflow as tf

    from oomph.planning.live import subject
    from oomph.planning.peaks import XlaGrowth
    from oomph.planning.xla.compiling import choose

    model, x, y = load(FOLDER / "development.py").MODELS[name](4)
    batch = tf.nest.map_structure(tf.convert_to_tensor, batch_of(x, y))
    subject.build(model, batch)
    chosen, first = choose(gpu.capability), None
    for size in sizes:
        found, handed_over = measure(model, batch, size, chosen.target, gpu.memory_bytes)
        first = first or XlaGrowth({size: found.temporary})
        bound = first.at(size).high / found.temporary
        print(
            f"| {name}, {size} | {found.total / MIB:.1f} | {found.arguments / MIB:.1f} | {found.temporary / MIB:.1f} | "
            f"{handed_over:.1f} | {found.seconds:.1f} | {bound:.2f} |", flush=True,
        )  # fmt: skip


def main() -> None:
    from oomph.planning.gpu_list import find_gpu

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="RTX 4090")
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--batches", default="8,32")
    args = parser.parse_args()
    gpu = find_gpu(args.gpu)
    print(
        f"{gpu.name}, MiB and seconds\n\n| model, batch | total | arguments | temporary | traced | compiled | bound |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in (args.only,) if args.only else NAMES:
        rows(name, sorted({int(size) for size in args.batches.split(",")}), gpu)


if __name__ == "__main__":
    main()
