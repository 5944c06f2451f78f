"""The options of `oomph run` for several workers: how many there are, and who starts them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from oomph.cli.option_values import resources, worker_range
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.run.supervisor.engine import WorkerEngine


def add_workers(add: Callable[..., Any]) -> None:
    """Declare the options with the function that adds one to a group of the help."""
    add(
        "--workers",
        metavar="N",
        type=worker_range,
        default=(None, 1),
        help="run the script N times at once, as the workers of one training on this machine, each with its share of"
        " the GPUs; if one fails, all resume; MIN:MAX with --engine ray: as many as the cluster has room for",
    )
    add(
        "--engine",
        choices=("local", "env", "ray"),
        default="local",
        help="who starts the workers: oomph, on this machine (local); a scheduler such as Slurm or Kubernetes, which"
        " gives each oomph run its place in the environment (env); or a Ray cluster, on its nodes (ray)",
    )
    add(
        "--address",
        metavar="ADDR",
        help="the address of the Ray cluster (default: RAY_ADDRESS, the one on this machine, or a new one here)",
    )
    add(
        "--resources-per-worker",
        metavar="NAME=N,...",
        type=resources,
        help="what each worker gets of the Ray cluster, such as GPU=2,CPU=4 (default: a CPU, and as many GPUs as each"
        " can have)",
    )
    add(
        "--placement-strategy",
        choices=("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
        help="how Ray places the workers on its nodes (default: PACK, on few)",
    )


def engine_of(args: argparse.Namespace) -> Callable[[str], WorkerEngine] | None:
    """Return what makes the engine once the Python of the script is known, or None without Ray."""
    if args.engine != "ray":
        for name in ("address", "resources_per_worker", "placement_strategy"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} is for a Ray cluster: add --engine ray, or leave it out")
        if args.workers[0] is not None:
            raise UsageError("the number of workers can change only on a Ray cluster: give one, or add --engine ray")
        return None
    from oomph.run.engine.ray_engine import PACK, RayEngine

    needs, strategy = args.resources_per_worker or {}, args.placement_strategy or PACK
    return partial(RayEngine, address=args.address or "", resources=needs, strategy=strategy)
