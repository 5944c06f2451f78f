"""The `oomph` command. A verb is a module with SUMMARY, add_arguments(parser) and run(args) -> exit code.

A verb's module is imported only when the verb is used, so that each verb only pays for its own imports.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

from oomph import __version__
from oomph.cli import output
from oomph.errors import OomphError, UsageError
from oomph.files.patterns import lazy_pattern
from oomph.terminal import screen
from oomph.terminal.console import clear_line
from oomph.terminal.screen import BOLD
from oomph.terminal.wrapping import reflowed, wrapped

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
    "demo": (
        "oomph.cli.demo",
        "put a small training run through an out-of-memory error and a kill, and compare the results (a few minutes)",
    ),
}
"""The module and purpose of each verb."""


_HEADS = dict.fromkeys(("usage:", "positional arguments:", "options:", "example:", "examples:", "exit codes:"), BOLD)
_OPTION_CUTOFF = 0.8
"""The minimum similarity for an option to count as mistyped. Script options such as --lr and --model have a similarity
of two thirds to --color and --help."""
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""The number of new objects between garbage collections (700 by default in Python): startup creates tens of thousands,
none of which are garbage."""


_COMMAND = lazy_pattern(r"(?P<whole> *(?:examples?: )?(?P<words>(?:oomph|python|eval)(?: \S+)+)) *")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's formatter, but without breaking words at hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=output.width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width).split("\n")


def fitting(text: str) -> str:
    """Wrap help text to the output's width, but keep each command in its examples on one line, for pasting."""
    width = output.width()
    before, mark, after = text.partition("\nexample")
    examples, blank, after = after.partition("\n\n")
    lines = (_fitting(line, width) for line in f"{mark}{examples}".split("\n"))
    return reflowed(before, width) + "\n".join(lines) + reflowed(blank + after, width)


def _fitting(line: str, width: int) -> str:
    command = _COMMAND.match(line)
    if command is None or len(line) <= width:
        return reflowed(line, width)
    column, start = command.end(), command.start("words")
    return wrapped(line, width, " " * (column if column <= width * 3 // 4 else start + 2), command=command["whole"])


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose output fits the terminal, and that works even if the output is closed."""

    about_unknown = ""
    """The hint to print for an unknown option that does not resemble any of oomph's options."""

    def print_help(self, file: object = None) -> None:
        output.write(fitting(self.format_help()), _HEADS)

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").partition(" ")[0].partition("=")[0]
        if unknown.startswith("-") and message.startswith("unrecognized"):
            names = [option[2:] for option in self._option_string_actions if option.startswith("--")]
            message += _similar(unknown.lstrip("-"), names, "--", _OPTION_CUTOFF) or self.about_unknown
        output.tell(f"{self.format_usage()}{self.prog}: error: {message}\n", _HEADS)
        raise SystemExit(2)


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
    except MemoryError:
        output.say("there is not enough memory to read the input")
        return 2


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        return _dispatch([words[1], "--help", *words[2:]])
    if not words or words[0] in ("-h", "--help", "help"):
        screen.choose(_colour(words))
        output.write(fitting(_help()), _HEADS)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        output.write(f"oomph {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in COMMANDS:
        raise UsageError(_unknown(verb))
    module = importlib.import_module(COMMANDS[verb][0])
    count = getattr(module, "count_options", len)  # verbs with a script: options after the script aren't oomph's
    screen.choose(_colour(rest[: count(rest)]))
    if verb != "run":  # a script may run without standard output; the other verbs exist to print
        output.check()
    parser = parser_of(verb)
    if count is not len:
        parser.about_unknown = "; the script's own options belong after the script"
    parse = getattr(module, "parse_arguments", None)  # verbs with a script: argparse must not see its arguments
    args = parser.parse_args(rest) if parse is None else parse(parser, rest)
    screen.choose(args.color)
    code: int = module.run(args)
    return code


def parser_of(verb: str) -> _Parser:
    """Return the parser for a verb's command line."""
    module = importlib.import_module(COMMANDS[verb][0])
    parser = _Parser(
        prog=f"oomph {verb}",
        description=module.SUMMARY,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.add_argument(
        "--color", choices=screen.CHOICES, default="auto", help="colour (auto: on a terminal, unless NO_COLOR is set)"
    )
    return parser


def _colour(options: Sequence[str]) -> str:
    """Return the value of --color early, since argparse prints help and errors before it has read all options."""
    said = "auto"
    for word, following in zip(options, [*options, ""][1:], strict=True):
        name, equals, value = word.partition("=")
        value = value if equals else following
        if name == "--color" and value in screen.CHOICES:  # argparse rejects other values
            said = value
    return said


def _help() -> str:
    verbs = "".join(f"  {verb:<10} {summary}\n" for verb, (_, summary) in COMMANDS.items())
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
    return f"unknown verb {verb}{_similar(verb, COMMANDS) or f': the verbs are {known}'}"


def _similar(word: str, known: Iterable[str], prefix: str = "", cutoff: float = 0.6) -> str:
    """Return a "did you mean" hint for a mistyped word, or "" if no known word is similar."""
    import difflib  # only for a mistyped word

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f": did you mean {prefix}{close[0]}?" if close else ""
