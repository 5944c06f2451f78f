"""oomph plan: predicts, before training starts, how much memory it needs and which batch size fits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oomph.cli.examining import plan_request, planned
from oomph.cli.option_values import nth_fit
from oomph.cli.output import say, width, write, write_json
from oomph.cli.script_line import usage
from oomph.errors import ExamineError, OutputError, UsageError
from oomph.redaction.redaction import know_secrets, redacted, redacted_words

if TYPE_CHECKING:
    from oomph.planning.plan import Plan
    from oomph.reach.request import ReachRequest

SUMMARY = "predict which batch size fits a GPU, this one or another, without training"

_EPILOG = """example: oomph plan --gpu 'RTX 4090' train.py --epochs 5
         oomph plan --gpu 24GiB --batch 32,64,128 --html plan.html train.py

The script runs up to its first training and stops there: nothing after that line runs. A few small \
steps may run to measure their memory; their results are discarded. The script's output goes to stderr.

exit codes: 0 the requested batches fit, or nothing says otherwise; 1 a requested batch, or by default the \
script's own, does not fit; 2 an invalid command line; 3 nothing could be planned: the script fails before \
training, or does not train"""
TAKES_SCRIPT = True
_MOST_BATCHES = 32
_POLICIES = ("float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage, parser.epilog = usage("plan"), _EPILOG
    add = parser.add_argument
    add(
        "--gpu",
        metavar="GPU",
        help="a GPU's name, an amount of memory (24GiB), or auto (default: the local GPU, if any)",
    )
    add("--batch", metavar="N,N", help="the batch sizes to plan (default: the script's own)")
    add("--fit", metavar="N", type=nth_fit, default=1, help="plan the Nth training; earlier ones run for real")
    add("--policy", metavar="NAME", help=f"plan with this dtype policy: {', '.join(_POLICIES)}")
    add("--optimizer", metavar="NAME", help="plan with this Keras optimizer, such as sgd")
    add("--python", metavar="PY", help="the Python to run the script with (default: oomph's, or the active one)")
    add("--html", metavar="FILE", help="also write the plan as a page with charts")
    add("--json", action="store_true", help="print the plan as JSON on stdout; sizes are in bytes")


def run(args: argparse.Namespace) -> int:
    """Run the plan. Returns 0 if the request fits and 1 otherwise. Raises ExamineError if nothing can be planned."""
    from oomph.planning.plan import as_document, as_document_without
    from oomph.planning.report import HEADS, as_text, with_script

    request = _request(args)
    try:
        plan = planned(request)
    except ExamineError as error:
        if args.json:
            write_json(as_document_without(str(error)))
        raise
    words = redacted_words(args.words)
    plan = with_script(plan, words)
    if args.html is not None:
        _write_page(args.html, plan, words)
    if args.json:
        write_json(as_document(plan))
    else:
        write("".join(f"{line}\n" for line in as_text(plan, words, width())), HEADS)
    return _exit_code(plan)


def _request(args: argparse.Namespace) -> ReachRequest:
    """Build the request, after rejecting any options that can be rejected before the script starts."""
    from oomph.planning.device import device_of, pool_of

    _check_policy(args.policy)
    arguments: dict[str, Any] = {"batches": _batches(args.batch), "policy": args.policy, "optimizer": args.optimizer}
    _check_page(args.html)
    know_secrets(args.words, os.environ)
    device = pool_of(os.environ) if args.gpu is None else None
    arguments["device"] = device or device_of(args.gpu, os.environ, say)
    return plan_request(args.words, args.python, arguments, args.fit)


def _batches(text: str | None) -> list[int]:
    """Parse the sizes given with --batch, and sort them. Raises UsageError for anything else."""
    if text is None:
        return []
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"--batch expects whole numbers above 0, such as 1,8,32, not {text}")
    if len(words) > _MOST_BATCHES:
        raise UsageError(f"--batch accepts at most {_MOST_BATCHES} sizes, not {len(words)}")
    return sorted({int(word) for word in words})


def _check_policy(name: str | None) -> None:
    if name is not None and name not in _POLICIES:
        raise UsageError(f"--policy expects one of {', '.join(_POLICIES)}, not {name or 'an empty value'}")


def _check_page(path: str | None) -> None:
    if path is None:
        return
    folder = Path(path).absolute().parent
    if os.path.isdir(path) or not path:
        raise UsageError(f"--html expects a file, not {path or 'an empty name'}")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"--html={path} cannot be written: {folder} is not a writable folder")


def _write_page(path: str, plan: Plan, words: Sequence[str]) -> None:
    from oomph.planning.picture import as_page

    try:
        Path(path).write_text(redacted(as_page(plan, words)), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def _exit_code(plan: Plan) -> int:
    from oomph.planning.plan import Fitting

    return int(any(estimate.fits is Fitting.NO for estimate in plan.estimates))
