"""The parser of a verb: its help fits the terminal, and an unknown option gets a suggestion."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol, cast

from oomph.cli import output
from oomph.files.patterns import lazy_pattern
from oomph.terminal import screen
from oomph.terminal.screen import BOLD
from oomph.terminal.wrapping import reflowed, wrapped

HEADS = dict.fromkeys(("usage:", "positional arguments:", "options:", "example:", "examples:", "exit codes:"), BOLD)
OPTION_CUTOFF = 0.8
"""The minimum similarity for an option to count as mistyped. Script options such as --lr and --model have a similarity
of two thirds to --color and --help."""
_COMMAND = lazy_pattern(r"(?P<whole> *(?:examples?: )?(?P<words>(?:oomph|python|eval)(?: \S+)+)) *")


class Verb(Protocol):
    """The module of a verb. One that takes a script also has TAKES_SCRIPT, which is True."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the verb's command line."""

    def run(self, args: argparse.Namespace) -> int:
        """Do what the command line asks for, and return the exit code."""


def takes_script(verb: Verb) -> bool:
    """True for a verb after whose options a script follows, with arguments of its own."""
    return bool(getattr(verb, "TAKES_SCRIPT", False))


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's formatter, but without breaking words at hyphens."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=output.width())

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(text, width).split("\n")


class VerbParser(argparse.ArgumentParser):
    """An ArgumentParser whose output fits the terminal, and that works even if the output is closed."""

    about_unknown: Callable[[str], str] | None = None
    """Returns the hint for an unknown option, if the verb knows more than the names of its own options."""

    @property
    def actions(self) -> list[argparse.Action]:
        """The options and positional arguments, in the order of the help."""
        return [action for _, actions in self.groups for action in actions]

    @property
    def groups(self) -> list[tuple[str, list[argparse.Action]]]:
        """The title of each group of arguments, and the arguments in it."""
        return [(group.title or "", group._group_actions) for group in self._action_groups if group._group_actions]

    @property
    def long_options(self) -> list[str]:
        """The options that begin with two hyphens."""
        return [name for name in self._option_string_actions if name.startswith("--")]

    def option(self, name: str) -> argparse.Action | None:
        """Return the option with this name, or None if the verb has none."""
        return self._option_string_actions.get(name)

    def print_help(self, file: object = None) -> None:
        output.write(fitting(self.format_help()), {**HEADS, **{f"{title}:": BOLD for title, _ in self.groups}})

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").partition(" ")[0].partition("=")[0]
        if unknown.startswith("-") and message.startswith("unrecognized"):
            hint = self.about_unknown or self.similar_option
            message += hint(unknown)
        output.tell(f"{self.format_usage()}{self.prog}: error: {message}\n", HEADS)
        raise SystemExit(2)

    def similar_option(self, unknown: str) -> str:
        """Return a "did you mean" hint if the unknown option resembles one of the verb's own, or ""."""
        return similar(unknown, self.long_options, OPTION_CUTOFF)


def parser_of(name: str, module: object) -> VerbParser:
    """Return the parser of a verb, with the options that every verb has."""
    verb = cast(Verb, module)
    parser = VerbParser(
        prog=f"oomph {name}",
        description=verb.SUMMARY,
        formatter_class=Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    verb.add_arguments(parser)
    every_verb = parser.add_argument_group("for every verb")
    every_verb.add_argument("-h", "--help", action="help", help="show this help message and exit")
    every_verb.add_argument(
        "--color", choices=screen.CHOICES, default="auto", help="colour (auto: on a terminal, unless NO_COLOR is set)"
    )
    return parser


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


def similar(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a "did you mean" hint for a mistyped word, or "" if no known word is similar."""
    close = closest(word, known, cutoff)
    return f": did you mean {close}?" if close else ""


def closest(word: str, known: Iterable[str], cutoff: float) -> str:
    """Return the known word that resembles a mistyped one most, or "". Leading hyphens do not count."""
    import difflib  # only for a mistyped word

    by_name = {each.lstrip("-"): each for each in known}
    close = difflib.get_close_matches(word.lstrip("-"), by_name, n=1, cutoff=cutoff)
    return by_name[close[0]] if close else ""
