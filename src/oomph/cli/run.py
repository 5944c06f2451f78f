"""oomph run: runs a script under supervision."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from oomph.cli.option_values import checkpoint_interval, every, positive, profile_window
from oomph.cli.output import say, write
from oomph.cli.script_line import usage
from oomph.cli.worker_options import add_workers, engine_of
from oomph.errors import OutputError, UsageError
from oomph.protocol.handover import Guarding

SUMMARY = "run a training script, unmodified, and keep it alive through GPU errors"

_EPILOG = """example: oomph run --checkpoint-every 5m train.py --epochs 5
         everything after the script belongs to the script

What you always want can be set once: checkpoint-every = "5m" under [tool.oomph] in the pyproject.toml of the script's \
folder or above, or OOMPH_CHECKPOINT_EVERY=5m in the environment.

exit codes: the script's own if it exits on its own; 128+n if signal n killed it and oomph does not restart it; \
93 if oomph gave up because another start would only hit the same fault again; 75 if the run was preempted, or \
another machine may help: start it again with --resume; 2 for an invalid command line"""
TAKES_SCRIPT = True
_OF_THE_GUARD = (
    "--checkpoint-every",
    "--micro-batch",
    "--plan",
    "--inexact",
    "--skip-poison",
    "--skip-corrupt",
    "--allow-bfloat16",
    "--allow-smaller-batch",
    "--start-over",
    "--trust-finished-fits",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, in the groups of the help."""
    parser.usage, parser.epilog = usage("run"), _EPILOG
    _add_run(parser)
    _add_checkpoints(parser)
    _add_memory(parser)
    _add_checks(parser)
    _add_what_alters_the_mathematics(parser)
    _add_reports(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the run").add_argument
    add("--run-dir", metavar="DIR", help="keep the run in DIR (default: .oomph/runs/<time>-<script>)")
    add("--runs-dir", metavar="DIR", help="keep .oomph in DIR (default: the working directory)")
    add(
        "--store",
        metavar="URL",
        help="also copy the run to URL, such as s3://bucket/prefix; --resume fetches it from there on another machine",
    )
    add("--python", metavar="PY", help="the Python that runs the script (default: oomph's, or the active one)")
    add("--out", metavar="FILE", help="save a notebook with its outputs to FILE (default: NAME.oomph.ipynb beside it)")
    add_workers(add)
    add("--no-guard", action="store_true", help="supervise and restart, but leave Keras alone")


def _add_checkpoints(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("checkpoints and resume").add_argument
    add(
        "--checkpoint-every",
        metavar="N|TIME",
        type=checkpoint_interval,
        help="steps (100) or time (30s, 5m); default: by measured cost",
    )
    add(
        "--resume",
        metavar="RUN",
        nargs="?",
        const="",
        help="resume the newest unfinished run of the same script and arguments, or the one in --resume=RUN;"
        " start a new run if there is none",
    )
    add(
        "--start-over",
        action="store_true",
        help="start every fit over and ignore its checkpoints; they stay until the run has finished",
    )
    add(
        "--trust-finished-fits",
        action="store_true",
        help="after a restart, return the result of a finished fit even if not all its effects can be restored,"
        " instead of training it again",
    )


def _add_memory(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("memory and micro-batches").add_argument
    add(
        "--plan",
        action="store_true",
        help="first plan the memory of the first training, and start with micro-batches if its batch may not fit",
    )
    add("--micro-batch", metavar="N", type=positive, help="start with micro-batches of N samples")
    add(
        "--inexact",
        choices=("allow", "refuse"),
        help="micro-batches that change the result: allow all, or refuse all (default: allow the usual kinds, such as"
        " BatchNormalization, with a label; refuse others)",
    )


def _add_checks(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("checks").add_argument
    add(
        "--check",
        action="store_true",
        help="first look for mistakes in the data and the model of the first training, as oomph check does",
    )
    add(
        "--verify",
        metavar="N",
        type=positive,
        help="also run the first N steps of every fit in plain Keras, and compare",
    )
    add(
        "--recheck",
        metavar="N",
        type=positive,
        help="compute the gradients of every Nth step twice and compare them: detects a GPU that silently computes"
        " wrong results; costs about 2/N of the time",
    )


def _add_what_alters_the_mathematics(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what alters the mathematics").add_argument
    add(
        "--skip-poison",
        action="store_true",
        help="skip the batch of a step that has failed twice on the same data, if nothing else helps",
    )
    add(
        "--skip-corrupt",
        action="store_true",
        help="leave out records and files that a tf.data pipeline cannot read or decode, and list them",
    )
    add(
        "--allow-bfloat16",
        action="store_true",
        help="compute in mixed_bfloat16 when nothing else makes the step fit the GPU",
    )
    add(
        "--allow-smaller-batch",
        action="store_true",
        help="train on smaller batches, each with its own update, where a batch neither fits nor can be split into"
        " micro-batches",
    )


def _add_reports(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("reports").add_argument
    add(
        "--profile",
        metavar="START:STOP",
        help="record the steps after step START, up to step STOP, with TensorFlow's profiler; oomph report shows what"
        " they spent their time on",
    )
    add(
        "--notify",
        metavar="COMMAND|URL",
        help="report the end of the run, a hang or a critical finding: to a command, whose last argument is the"
        " message, or as JSON to a web address",
    )
    add("--report", action="store_true", help="at the end, write a page with charts, as oomph report does")
    add("--json", action="store_true", help="print the summary as JSON on stdout after the script exits")


def run(args: argparse.Namespace) -> int:
    """Run the script, and return the exit code for `oomph run`."""
    from oomph.run.supervisor.launch import Request, launch

    _check_guarded(args)
    if args.check and args.resume is None:  # a resumed run was checked when it first started, if at all
        from oomph.cli.examining import show_findings

        show_findings(args.words, args.python)
    if args.plan and args.micro_batch is None and args.resume is None:  # a resumed run knows its micro-batch size
        from oomph.cli.examining import planned_micro_batch

        args.micro_batch = planned_micro_batch(args.words, args.python)
    outcome = launch(
        Request(
            words=tuple(args.words),
            run_dir=args.run_dir,
            runs_dir=None if args.runs_dir is None else Path(args.runs_dir),
            resume=_run_to_resume(args.resume, args.runs_dir),
            python=args.python,
            out=args.out,
            guarding=_guarding(args),
            allowed=_allowed(args),
            typed=tuple(_without_addresses(args)),
            notify=args.notify,
            workers=args.workers[1],
            fewest_workers=args.workers[0],
            under_scheduler=args.engine == "env",
            engine=engine_of(args),
            store=args.store,
        )
    )
    if args.profile is not None:
        _tell_missed(outcome.run_dir)
    if args.report:
        _write_report(outcome.run_dir)
    if args.json:
        _print_summary(outcome.summary.to_json())
    return outcome.exit_code


def _run_to_resume(named: str | None, runs_dir: str | None) -> str | None:
    """Return the run directory that `--resume` names, which need not exist yet."""
    if not named:
        return named
    from oomph.cli.run_names import run_of

    return run_of(named, runs_dir)


def _write_report(run_dir: Path | None) -> None:
    """Write the report. If that fails, oomph still exits with the script's exit code."""
    from oomph.cli.report import write_into

    if run_dir is None:
        say("there is no report, since the run has no directory")
        return
    try:
        say(f"the report is in {write_into(run_dir)}")
    except Exception as error:
        say(f"the report could not be written: {error}")


def _tell_missed(run_dir: Path | None) -> None:
    """Say which steps were not recorded although `--profile` asks for them."""
    from oomph.journal.journal import read_journal
    from oomph.run.report.profiled import missed

    if run_dir is None:
        say("nothing was recorded, since the run has no directory")
        return
    for text in missed(read_journal(run_dir)):
        say(text)


def _without_addresses(args: argparse.Namespace) -> list[str]:
    """Leave out addresses that may be secret, since the options are stored, and printed for a resume.

    Of a web address, the path is often secret; of a store's, the user and the query.
    """
    from oomph.run.store.object_store import shown_url
    from oomph.run.supervisor.notifying import is_address

    typed = list(args.typed)
    if args.notify is not None and is_address(args.notify):
        typed = _without("--notify", args.notify, typed)
    if args.store is not None and shown_url(args.store) != args.store:
        typed = _without("--store", args.store, typed)
    return typed


def _without(option: str, value: str, typed: Sequence[str]) -> list[str]:
    words = [word for word in typed if word != f"{option}={value}"]
    return [word for word, before in zip(words, ["", *words], strict=False) if option not in (word, before)]


def _print_summary(document: str) -> None:
    """Print the summary. If that fails, oomph still exits with the script's exit code."""
    try:
        write(document)
    except (OutputError, BrokenPipeError) as error:
        say(f"the summary could not be printed: {error}")


def _guarding(args: argparse.Namespace) -> Guarding:
    steps, seconds = every(args.checkpoint_every)
    return Guarding(
        guard=not args.no_guard,
        checkpoint_steps=steps,
        checkpoint_seconds=seconds,
        micro_batch=args.micro_batch,
        inexact=args.inexact,
        smaller_batch=args.allow_smaller_batch,
        verify=args.verify,
        recheck=args.recheck,
        ignore_before=time.time() if args.start_over else None,
        trust_finished_fits=args.trust_finished_fits,
        skip_corrupt=args.skip_corrupt,
        profile=None if args.profile is None else profile_window(args.profile),
    )


def _check_guarded(args: argparse.Namespace) -> None:
    """Reject or report options that require the guard if --no-guard is given."""
    if not args.no_guard:
        return
    for name in ("verify", "recheck", "profile"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name} needs the guard, but --no-guard switches it off: drop one of them")
    idle = [option for option in _OF_THE_GUARD if getattr(args, option[2:].replace("-", "_"))]
    if idle:
        say(f"without the guard, {' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no effect")


def _allowed(args: argparse.Namespace) -> frozenset[str]:
    given = {"skip-batch": args.skip_poison, "precision": args.allow_bfloat16}
    return frozenset(name for name, flag in given.items() if flag)
