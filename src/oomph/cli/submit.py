"""oomph submit: hands a training on several machines to Slurm or Kubernetes."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys

from oomph.cli.option_values import checkpoint_interval, number_of_workers, positive
from oomph.cli.output import say, write
from oomph.errors import UsageError
from oomph.terminal.amounts import listed

SUMMARY = "start a training on several machines through Slurm or Kubernetes"

_EPILOG = """example: oomph submit --slurm --workers 4 --gpus 1 --time 8:00:00 --dry-run train.py --epochs 90
         oomph submit --kubernetes --workers 4 --image IMAGE --claim SHARED train.py

Each worker is one oomph run --engine env. If one fails and another start may help, the scheduler starts all of them \
again, and they go on from the newest checkpoint that all have.

exit codes: that of sbatch or kubectl; 2 an invalid command line, or a scheduler that is not there"""
TAKES_SCRIPT = True
_USAGE = """oomph submit (--slurm | --kubernetes) [options] SCRIPT.py [arguments of the script ...]
       oomph submit (--slurm | --kubernetes) [options] -m MODULE [arguments ...]
       oomph submit (--slurm | --kubernetes) [options] -- COMMAND [arguments ...]"""
_TIME = re.compile(r"\d{1,9}(?:-\d{1,2})?(?::\d{1,2}){0,2}")
_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage, parser.epilog = _USAGE, _EPILOG
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--slurm", action="store_true", help="hand a file to sbatch")
    where.add_argument("--kubernetes", action="store_true", help="hand a JobSet to kubectl apply")
    add = parser.add_argument
    add("--dry-run", action="store_true", help="print the file or the manifest, and submit nothing")
    add("--workers", metavar="N", type=number_of_workers, help="the number of workers")
    add("--gpus", metavar="N", type=positive, default=0, help="the number of GPUs of each worker (default: none)")
    add("--name", metavar="NAME", help="the name of the job (default: the script's)")
    add("--checkpoint-every", metavar="N|TIME", type=checkpoint_interval, help="as for oomph run")
    add("--time", metavar="LIMIT", help="the time limit, such as 90 (minutes), 8:00:00 or 2-12 (Slurm)")
    add("--image", metavar="IMAGE", help="the image that holds the script, oomph and TensorFlow (Kubernetes)")
    add("--claim", metavar="NAME", help="the persistent volume claim that all pods share (Kubernetes)")


def run(args: argparse.Namespace) -> int:
    """Render the job, and submit or print it."""
    from oomph.submit import kubernetes, slurm
    from oomph.submit.job import BatchJob

    _check_complete(args)
    job = BatchJob(
        name=_name(args),
        words=_words(args),
        workers=args.workers,
        gpus=args.gpus,
        options=() if args.checkpoint_every is None else (f"--checkpoint-every={args.checkpoint_every}",),
        time=_time(args),
        image=_of_kubernetes(args, "image"),
        claim=_of_kubernetes(args, "claim"),
    )
    text = slurm.render(job, sys.executable) if args.slurm else kubernetes.render(job)
    if args.dry_run:
        write(text)
        return 0
    return _submit(["sbatch"] if args.slurm else ["kubectl", "apply", "-f", "-"], text)


def _check_complete(args: argparse.Namespace) -> None:
    """Raise UsageError that names all options that are missing, and not one after the other."""
    needed = ("workers", "image", "claim") if args.kubernetes else ("workers",)
    missing = [] if args.slurm or args.kubernetes else ["--slurm or --kubernetes"]
    missing += [f"--{name}" for name in needed if getattr(args, name) is None]
    if missing:
        raise UsageError(f"oomph submit needs {listed(missing)}")


def _words(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the script and its arguments. Raises UsageError for what would not run, or would not stay secret."""
    from oomph.process.command import parse_command
    from oomph.redaction.redaction import know_secrets, redacted_words

    command = parse_command(args.words) if args.slurm else None  # the script lies in the image
    words = tuple(args.words)
    if not words or (command is not None and command.form == "notebook"):
        raise UsageError("oomph submit needs a script, -m MODULE or -- COMMAND; a notebook has only one process")
    know_secrets(words, {})
    if tuple(redacted_words(words)) != words:
        raise UsageError(
            "the arguments contain a secret, which others can read in a job: pass it by a variable or a file"
        )
    return words


def _name(args: argparse.Namespace) -> str:
    """Return a name that both schedulers allow. Raises UsageError for another."""
    from oomph.process.command import Command

    if args.name is None:
        letters = re.sub(r"[^a-z0-9]+", "-", Command(tuple(args.words or ["train"])).name.lower()).strip("-")[:40]
        return letters.strip("-") if letters[:1].isalpha() else f"train-{letters[:30]}".strip("-")
    if not _LABEL.fullmatch(args.name):
        raise UsageError("--name expects at most 40 lower-case letters, digits and hyphens, and a letter first")
    return str(args.name)


def _time(args: argparse.Namespace) -> str:
    if args.time is None:
        return ""
    if args.kubernetes:
        raise UsageError("--time is for --slurm: leave it out")
    if not _TIME.fullmatch(args.time):
        raise UsageError(f"--time expects minutes, hours:minutes:seconds or days-hours, not {args.time}")
    return str(args.time)


def _of_kubernetes(args: argparse.Namespace, option: str) -> str:
    value: str | None = getattr(args, option)
    if args.slurm and value is not None:
        raise UsageError(f"--{option} is for --kubernetes: leave it out")
    return value or ""


def _submit(argv: list[str], text: str) -> int:
    if shutil.which(argv[0]) is None:
        raise UsageError(f"{argv[0]} is not on this machine: run this where it is, or print the job with --dry-run")
    code = subprocess.run(argv, input=text, text=True, check=False).returncode
    if code:
        say(f"{argv[0]} ended with exit code {code}: nothing was submitted")
    return code
