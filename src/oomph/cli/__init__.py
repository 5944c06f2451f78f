"""The `oomph` command. A verb is a module with SUMMARY, add_arguments(parser) and run(args) -> exit code.

No verb's module is imported before it is named, so that each costs only what it needs itself.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from oomph import __version__
from oomph.cli import output
from oomph.errors import OomphError, UsageError

COMMANDS = {
    "run": ("oomph.cli.run", "run a training script, unmodified, and keep it alive through GPU errors"),
    "doctor": ("oomph.cli.doctor", "say whether this machine can train on its GPU, and if not, the one thing to do"),
    "explain": ("oomph.cli.explain", "name the fault in a log, an exception or a run, and say what to do"),
    "rehearse": (
        "oomph.cli.rehearse",
        "put a script through faults on this machine, and see whether it would survive them on the cluster",
    ),
    "demo": (
        "oomph.cli.demo",
        "show oomph at work on a small training: out of memory, killed, and the same result (a few minutes)",
    ),
}
"""Verb → (module, what it does)."""


class _Parser(argparse.ArgumentParser):
    """argparse's own writes as if standard output and standard error were always there."""

    def print_help(self, file: object = None) -> None:
        output.write(self.format_help())

    def error(self, message: str) -> NoReturn:
        output.tell(f"{self.format_usage()}{self.prog}: error: {message}\n")
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `oomph ...`; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except OomphError as error:
        output.tell(f"oomph: {error}\n")
        return error.exit_code
    except SystemExit as error:  # argparse has printed the help, or what is wrong
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        output.write(_help())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        output.write(f"oomph {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in COMMANDS:
        raise UsageError(_unknown(verb))
    module = importlib.import_module(COMMANDS[verb][0])
    if verb != "run":  # the script may do without what the others are for
        output.check()
    parser = _Parser(
        prog=f"oomph {verb}",
        description=module.SUMMARY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parse = getattr(module, "parse_arguments", None)  # `run` alone: the script's arguments are none of argparse's
    code: int = module.run(parser.parse_args(rest) if parse is None else parse(parser, rest))
    return code


def _help() -> str:
    verbs = "".join(f"  {verb:<10} {summary}\n" for verb, (_, summary) in COMMANDS.items())
    return (
        "usage: oomph VERB ...\n\nKeeps TensorFlow / Keras training alive through GPU errors.\n\n"
        f"{verbs}\n"
        "example: oomph run train.py --epochs 10\n"
        "         oomph VERB --help says more about a verb; oomph --version names this version\n"
    )


def _unknown(verb: str) -> str:
    if verb.endswith(".py"):
        return f"unknown verb {verb}: to run a script, type oomph run {verb}"
    import difflib  # for a mistyped word only

    close = difflib.get_close_matches(verb, COMMANDS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
    return f"unknown verb {verb}: {hint}"
