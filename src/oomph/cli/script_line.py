"""The command line of a verb that takes a script: the verb's options, then the script with its own arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from oomph.cli.output import say
from oomph.cli.parser import OPTION_CUTOFF, VerbParser, closest, similar
from oomph.cli.presets import with_presets
from oomph.errors import UsageError

_NEGATIVE = re.compile(r"-[\d.]")
_BELONGS_AFTER = "; the script's own options belong after the script"
_RARELY_OF_A_SCRIPT = ("--gpu", "--html", "--json")
"""The options that are probably meant for oomph even after a script whose options are unknown."""


def usage(verb: str) -> str:
    """Return the usage of a verb that takes a script, in every form that a script may have."""
    return f"""oomph {verb} [options] SCRIPT.py [arguments of the script ...]
       oomph {verb} [options] NOTEBOOK.ipynb [arguments ...]
       oomph {verb} [options] -m MODULE [arguments ...]
       oomph {verb} [options] -- COMMAND [arguments ...]      (any command that ends in Python)"""


def count_options(parser: VerbParser, words: Sequence[str]) -> int:
    """Return the number of words before the script, `-m` or `--`."""
    position = 0
    while position < len(words):
        word = words[position]
        if word in ("--", "-m", "-") or not word.startswith("-"):
            return position
        position += 2 if _needs_value(parser, word) else 1
    return min(position, len(words))


def _needs_value(parser: VerbParser, word: str) -> bool:
    option = parser.option(word)
    return option is not None and option.nargs is None


def parse_with_script(verb: str, parser: VerbParser, words: Sequence[str]) -> argparse.Namespace:
    """Parse the verb's options into `typed`, and put the script and its arguments into `words` unchanged."""
    count = count_options(parser, words)
    options, script = list(words[:count]), list(words[count:])
    _check_values(options)
    parser.about_unknown = lambda unknown: _about_unknown(parser, unknown, script)
    args = parser.parse_args(with_presets(verb, parser, _with_negative_values(parser, options), script))
    args.typed, args.words = options, script
    _tell_late_options(parser, script)
    return args


def _check_values(options: Sequence[str]) -> None:
    """Reject an empty value: `--resume="$UNSET"` would otherwise start over at every requeue."""
    empty = next((word for word in options if word.startswith("--") and word.endswith("=")), None)
    if empty is None and "" in options[1:]:
        empty = options[options.index("", 1) - 1]
    if empty is not None:
        raise UsageError(f"{empty} has no value: give it one, or leave it out (is a variable unset?)")


def _with_negative_values(parser: VerbParser, options: Sequence[str]) -> list[str]:
    """Turn "--gpu -1GiB" into "--gpu=-1GiB", because argparse would otherwise treat the value as an option."""
    joined: list[str] = []
    for word in options:
        if joined and _needs_value(parser, joined[-1]) and _NEGATIVE.match(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _about_unknown(parser: VerbParser, unknown: str, rest: Sequence[str]) -> str:
    """Return a hint for an option that the verb does not know, from the script's options and from its own."""
    from oomph.cli.script_options import declared_options, script_among

    script = script_among(rest)
    theirs = () if script is None else declared_options(script.path)
    close = closest(unknown, [*theirs, *parser.long_options], OPTION_CUTOFF)
    if script is not None and close in theirs:
        meant = "that is an option of" if close == unknown else f"did you mean {close} of"
        return f": {meant} {script.shown}? It belongs after the script: {parser.prog} {script.shown} {close} ..."
    return similar(unknown, parser.long_options, OPTION_CUTOFF) or _BELONGS_AFTER


def _tell_late_options(parser: VerbParser, words: Sequence[str]) -> None:
    """Say that the script gets an option that is probably meant for oomph, since it comes after the script."""
    late = {word.partition("=")[0] for word in words[1:]} & set(parser.long_options)
    if not late:
        return
    from oomph.cli.script_options import declared_options, script_among

    script = script_among(words)
    theirs = () if script is None else declared_options(script.path)
    meant = [name for name in sorted(late) if name not in theirs and (theirs or name in _RARELY_OF_A_SCRIPT)]
    if meant:
        say(f"{meant[0]} comes after the script, so the script gets it; put {parser.prog}'s options first")
