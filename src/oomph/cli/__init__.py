"""The `oomph` command. A verb is a module with SUMMARY, add_arguments(parser) and run(args) -> exit code.

A verb's module is imported only when the verb is used, so that each verb only pays for its own imports.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from oomph import __version__
from oomph.cli import output
from oomph.cli.parser import HEADS, VerbParser, fitting, parser_of, similar, takes_script
from oomph.errors import OomphError, UsageError
from oomph.terminal import screen
from oomph.terminal.console import clear_line

COMMANDS = {
    "run": ("oomph.cli.run", "run a training script, unmodified, and keep it alive through GPU errors"),
    "doctor": ("oomph.cli.doctor", "say whether this machine can train on its GPU, and if not, the one thing to do"),
    "plan": ("oomph.cli.plan", "predict which batch size fits a GPU, this one or another, without training"),
    "check": ("oomph.cli.check", "find mistakes in the data or the model before spending GPU hours"),
    "watch": ("oomph.cli.watch", "show the GPUs, the runs in this folder and their problems, live"),
    "report": ("oomph.cli.report", "show what happened in a run: memory, speed and loss over time, and each fault"),
    "runs": ("oomph.cli.runs", "list the runs in a folder, and remove old ones"),
    "explain": ("oomph.cli.explain", "name the fault in a log, an exception or a run, and say what to do"),
    "kernel": ("oomph.cli.kernel", "install a Jupyter kernel that restarts when it dies, and says why it died"),
    "rehearse": (
        "oomph.cli.rehearse",
        "inject faults into a script on this machine, and see whether it would survive them on the cluster",
    ),
    "submit": ("oomph.cli.submit", "start a training on several machines through Slurm or Kubernetes"),
    "completion": ("oomph.cli.completion", "print what makes bash, zsh or fish complete oomph's command line"),
    "demo": (
        "oomph.cli.demo",
        "put a small training run through an out-of-memory error and a kill, and compare the results (a few minutes)",
    ),
}
"""The module and purpose of each verb."""


_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""The number of new objects between garbage collections (700 by default in Python): startup creates tens of thousands,
none of which are garbage."""


def command() -> int:
    """Run the `oomph` command as this process's only task, and return the exit code."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    code = main()
    gc.freeze()  # the process is about to exit, so Python need not look for garbage again
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `oomph ...`, and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except OomphError as error:
        output.say(str(error))
        return error.exit_code
    except SystemExit as error:  # argparse has printed the help or the error
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt:
        clear_line()
        return 130
    except BrokenPipeError:
        return 141
    except FileNotFoundError:
        if _has_working_directory():
            raise
        output.say("the working directory has been deleted: change to one that exists")
        return 2
    except MemoryError:
        output.say("there is not enough memory to read the input")
        return 2


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        return _dispatch([words[1], "--help", *words[2:]])
    if not words or words[0] in ("-h", "--help", "help"):
        screen.choose(_colour(words))
        output.write(fitting(_help()), HEADS)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        output.write(f"oomph {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in COMMANDS:
        raise UsageError(_unknown(verb))
    module = importlib.import_module(COMMANDS[verb][0])
    parser = parser_of(verb, module)
    screen.choose(_colour(rest[: _count_options(module, parser, rest)]))
    if verb != "run":  # a script may run without standard output; the other verbs exist to print
        output.check()
    args = _parsed(verb, module, parser, rest)
    screen.choose(args.color)
    code: int = module.run(args)
    return code


def _count_options(module: Any, parser: VerbParser, words: Sequence[str]) -> int:
    """Return the number of words that are the verb's own; those after a script belong to it."""
    if not takes_script(module):
        return len(words)
    from oomph.cli.script_line import count_options

    return count_options(parser, words)


def _parsed(verb: str, module: Any, parser: VerbParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse a verb's command line, with the presets that apply to it."""
    if takes_script(module):
        from oomph.cli.script_line import parse_with_script

        return parse_with_script(verb, parser, words)
    from oomph.cli.presets import with_presets

    words = with_presets(verb, parser, words)
    parse_own: Callable[..., argparse.Namespace] = getattr(
        module, "parse_arguments", argparse.ArgumentParser.parse_args
    )
    return parse_own(parser, words)


def _colour(options: Sequence[str]) -> str:
    """Return the value of --color early, since argparse prints help and errors before it has read all options."""
    said = os.environ.get("OOMPH_COLOR", "auto")
    for word, following in zip(options, [*options, ""][1:], strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        if name == "--color" and value in screen.CHOICES:  # argparse rejects other values
            said = value
    return said if said in screen.CHOICES else "auto"


def _help() -> str:
    verbs = "".join(f"  {verb:<10}  {summary}\n" for verb, (_, summary) in COMMANDS.items())
    return (
        "usage: oomph VERB ...\n\nKeeps TensorFlow / Keras training alive through GPU errors.\n\n"
        f"{verbs}\n"
        "example: oomph run train.py --epochs 10\n\n"
        "oomph VERB --help describes a verb; oomph --version prints the version.\n"
    )


def _unknown(verb: str) -> str:
    if verb.endswith(".py"):
        return f"unknown verb {verb}: to run a script, type oomph run {verb}"
    known = ", ".join(COMMANDS)
    return f"unknown verb {verb}{similar(verb, COMMANDS) or f': the verbs are {known}'}"
