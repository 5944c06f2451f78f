"""Reads presets: options that are set once, by `OOMPH_*` variables or under `[tool.oomph]` in a pyproject.toml.

The command line has precedence over the environment, and the environment over the file. A file may come from somebody
else, so it can hold neither a program to run nor an address to send to; whoever owns it must be this user, root, or the
owner of the script, whose code runs anyway.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from oomph.cli.output import say
from oomph.cli.parser import VerbParser, closest
from oomph.errors import UsageError
from oomph.files.opening import open_regular
from oomph.protocol.handover import REHEARSAL
from oomph.terminal.amounts import as_size, listed
from oomph.terminal.message import shown_line
from oomph.terminal.wrapping import shortened

PREFIX = "OOMPH_"
TABLE = "[tool.oomph]"
FILE = "pyproject.toml"
_MOST_BYTES = 16 << 20
"""The largest file to read. Only a file that names oomph is parsed, which takes a third of a second for each MiB."""
_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_OWN = tuple(
    f"{PREFIX}{name}"
    for name in (
        "HANDOVER",
        "KERNEL",
        "OWNER",
        "REACH",
        "REHEARSAL",
        "SEARCH_PATH",
        "TEST_GATHERING",
        "TEST_HANG_FLOOR",
        "XLA_PYTHON",
    )
)  # fmt: skip
"""The variables that oomph sets for its own processes, or that are no options."""
_TYPO = 0.8
_MOST_SHOWN = 100
_ROOT = 0


class Preset(NamedTuple):
    """An option that may also be set by a variable and, if it can do no harm, in a file."""

    option: str
    verbs: tuple[str, ...] = ("run",)
    """The verbs whose option it is, or () for every verb."""
    in_file: bool = True
    needs_guard: bool = False
    in_rehearsal: bool = True
    """False for what `oomph rehearse` must not repeat with every run that it starts."""
    is_folder: bool = False
    """True for a folder, which in a file is relative to that file."""
    is_seen: bool = False
    """True if the verb's own output shows that it applies."""

    @property
    def key(self) -> str:
        """The name in a file."""
        return self.option[2:]

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.key.replace("-", "_").upper()


PRESETS = (
    Preset("--checkpoint-every", needs_guard=True),
    Preset("--trust-finished-fits", needs_guard=True),
    Preset("--inexact", needs_guard=True),
    Preset("--plan", needs_guard=True, in_rehearsal=False),
    Preset("--check", in_rehearsal=False),
    Preset("--verify", needs_guard=True),
    Preset("--recheck", needs_guard=True),
    Preset("--report", in_rehearsal=False),
    Preset("--notify", in_file=False, in_rehearsal=False),
    Preset("--python", ("run", "check", "plan", "rehearse", "doctor"), in_file=False),
    Preset("--runs-dir", ("run", "explain", "report", "watch", "runs"), is_folder=True, is_seen=True),
    Preset("--color", (), in_file=False, is_seen=True),
)


class _Found(NamedTuple):
    """The value of a preset, and where it comes from."""

    value: object
    name: str
    """The name for a sentence about a bad value."""
    file: str = ""
    """The file, or "" for the environment."""


def with_presets(verb: str, parser: VerbParser, typed: Sequence[str], script: Sequence[str] = ()) -> list[str]:
    """Return the typed options after those that a file and the environment set, and say which those are.

    Raises UsageError for an unknown key of the file, or a value of the wrong kind.

    Args:
        script: the script and its arguments, for a verb that takes a script.
    """
    if "-h" in typed or "--help" in typed:
        return list(typed)
    found = {**_in_file(verb, script), **_in_environment(os.environ)}
    usable = [(each, found[each.option]) for each in PRESETS if each.option in found and _applies(each, verb, typed)]
    words = [(preset, at, word) for preset, at in usable if (word := _word(parser, preset, at))]
    _tell([(preset.variable if not at.file else word, at.file) for preset, at, word in words if not preset.is_seen])
    if verb == "run":
        _tell_mistyped(os.environ)
    return [*(word for _, _, word in words), *typed]


def _applies(preset: Preset, verb: str, typed: Sequence[str]) -> bool:
    given = {word.partition("=")[0] for word in typed}
    return (
        (not preset.verbs or verb in preset.verbs)
        and preset.option not in given
        and not (preset.needs_guard and "--no-guard" in given)
        and (preset.in_rehearsal or REHEARSAL not in os.environ)
    )


def _word(parser: VerbParser, preset: Preset, found: _Found) -> str:
    """Return the preset as it would be typed, or "" for one that is switched off. Raises UsageError."""
    option = parser.option(preset.option)
    if option is None:
        return ""
    if option.nargs == 0:
        return preset.option if _switch(found) else ""
    if isinstance(found.value, bool) or not isinstance(found.value, str | int):
        raise UsageError(f"{found.name}: {_shown(found.value)} is not a value of {preset.option}")
    text = _folder(found) if preset.is_folder else str(found.value)
    if option.choices is not None and text not in option.choices:
        raise UsageError(f"{found.name} expects one of {', '.join(option.choices)}, not {_shown(text)}")
    try:
        if callable(option.type):
            option.type(text)
    except (argparse.ArgumentTypeError, ValueError, UsageError) as error:
        raise UsageError(f"{found.name}: {_shown(error)}") from error
    return f"{preset.option}={text}"


def _folder(found: _Found) -> str:
    """Return a folder as seen from here. Raises UsageError if no folder can have that name."""
    path = os.path.expanduser(str(found.value))
    if "\0" in path:
        raise UsageError(f"{found.name}: {_shown(path)} is not the name of a folder")
    if os.path.isabs(path) or not found.file:
        return path
    return os.path.relpath(os.path.join(os.path.dirname(found.file), path))


def _switch(found: _Found) -> bool:
    value = found.value if isinstance(found.value, bool) else None
    if not found.file:
        value = _SWITCHES.get(str(found.value).lower())
    if value is None:
        expected = "true or false" if found.file else f"one of {', '.join(_SWITCHES)}"
        raise UsageError(f"{found.name} expects {expected}, not {_shown(found.value)}")
    return value


def _shown(value: object) -> str:
    """Return a value for a sentence: on one line, and shortened if it is long."""
    return shortened(shown_line(str(value)), _MOST_SHOWN)


# -- the environment --------------------------------------------------------------------------------------------------


def _in_environment(environ: Mapping[str, str]) -> dict[str, _Found]:
    """Return the presets in the environment. An empty variable counts as unset."""
    names = ((preset.option, preset.variable) for preset in PRESETS)
    return {option: _Found(environ[name], name) for option, name in names if environ.get(name)}


def _tell_mistyped(environ: Mapping[str, str]) -> None:
    known = [preset.variable for preset in PRESETS]
    for name in environ:
        if name.startswith(PREFIX) and name not in (*known, *_OWN):
            close = closest(name, known, _TYPO)
            hint = f"did you mean {close}?" if close else f"{PREFIX}* sets {listed(known, len(known))}"
            say(f"{name} has no effect: {hint}")


# -- pyproject.toml ---------------------------------------------------------------------------------------------------


def _in_file(verb: str, script: Sequence[str]) -> dict[str, _Found]:
    """Return the presets of the nearest pyproject.toml with a table for oomph, from the script's folder upwards."""
    if not any(preset.in_file and verb in preset.verbs for preset in PRESETS):
        return {}
    try:
        place = _place(script)
    except FileNotFoundError:  # the working directory has been deleted, as the verb will say if it needs one
        return {}
    owners = {os.geteuid(), _ROOT, *([_owner_of(place)] if script else [])}
    for folder in (place.parent, *place.parent.parents):
        table = _table(folder / FILE, owners)
        if table is not None:
            found = _checked(table, os.path.relpath(folder / FILE), verb == "run")
            return {f"--{key}": value for key, value in found.items()}
    return {}


def _place(script: Sequence[str]) -> Path:
    """Return the path of the script, or a path in the working directory for a module or another command."""
    from oomph.process.command import what_runs

    named = what_runs(script)
    if not named or named[0].startswith("-") or not os.path.lexists(named[0]):
        return Path(os.path.abspath("script"))
    path = Path(os.path.abspath(named[0]))
    return path / "__main__.py" if path.is_dir() else path


def _table(path: Path, owners: Collection[int]) -> object:
    """Return the value of `tool.oomph` in a file, or None if there is none or it belongs to none of these users."""
    try:
        with open_regular(path) as file:
            content, owner = file.read(_MOST_BYTES + 1), os.fstat(file.fileno()).st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if os.access(path.parent, os.X_OK):  # otherwise the verb reports the folder
            say(f"{os.path.relpath(path)} is ignored: {error.strerror}")
        return None
    if len(content) > _MOST_BYTES:
        say(f"{os.path.relpath(path)} is ignored: it is larger than {as_size(_MOST_BYTES)}")
        return None
    if b"oomph" not in content:  # spares most users the time that parsing takes
        return None
    try:
        table = _tool(content)
    except (ValueError, RecursionError) as error:
        say(f"{os.path.relpath(path)} is ignored, since it is not valid TOML: {error}")
        return None
    if table is not None and owner not in owners:
        say(f"{TABLE} in {os.path.relpath(path)} is ignored: the file belongs to another user")
        return None
    return table


def _tool(content: bytes) -> object:
    """Return the value of `tool.oomph` in the text of a file. Raises ValueError if that is not valid TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    tool = tomllib.loads(content.decode()).get("tool")
    return tool.get("oomph") if isinstance(tool, dict) else None


def _owner_of(script: Path) -> int:
    """Return the owner of the script, whose code runs anyway, or of the folder if there is no such script."""
    try:
        return (script if script.exists() else script.parent).stat().st_uid
    except OSError:
        return _ROOT  # as the verb will say


def _checked(table: object, file: str, strictly: bool) -> dict[str, _Found]:
    """Return the presets of a table by key. Raises UsageError for one that does not exist or needs another place.

    Args:
        strictly: False to leave that to the verb whose presets most of them are.
    """
    where = f"{TABLE} in {file}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} must be a table")
    by_key = {preset.key: preset for preset in PRESETS}
    for key in table if strictly else ():
        preset = by_key.get(key)
        if preset is None:
            close = closest(key, (name for name, each in by_key.items() if each.in_file), _TYPO)
            raise UsageError(f"{where} has an unknown key {_shown(key)}{f': did you mean {close}?' if close else ''}")
        if not preset.in_file:
            raise UsageError(f"{where}: {key} is not read from a file; set {preset.variable} in the environment")
    return {key: _Found(value, f"{key} of {where}", file) for key, value in table.items()}


def _tell(presets: Sequence[tuple[str, str]]) -> None:
    """Say which presets apply: those of a file as they would be typed, and the names of variables, without values."""
    for file in sorted({file for _, file in presets}, reverse=True):
        words = ", ".join(word for word, source in presets if source == file)
        say(f"set {f'in {file}' if file else 'in the environment'}: {words}")
