"""Reads what lies beside a log: the script that failed and the versions of the packages that the traceback names.

Nothing is imported or run. A path in a log may come from another machine, so a file counts only if its line is the one
that the traceback shows. Everything is bounded: only regular files, of at most a few megabytes, are read.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from oomph.explain.facts.at_hand import AtHand, ScriptCall, SeenScript
from oomph.explain.facts.fact import CodePlace, FailedAlready, Library, LibraryVersion, LogFacts
from oomph.explain.facts.version_range import VersionRange, version
from oomph.files.opening import read_regular

_MOST_BYTES, _MOST_CALLS, _MOST_NODES = 1 << 21, 60, 100_000
_LONGEST, _LONGEST_ARGUMENT = 300, 80
_CALLS = frozenset(
    {"compile", "fit", "evaluate", "predict", "Dense", "Input", "Embedding", "batch", "repeat", "from_tensor_slices"}
    | {"from_generator", "image_dataset_from_directory", "flow_from_directory", "load_model", "load_weights"}
    | {"argmax", "round", "floor", "numpy"}
)
_DRIVER = Path("/proc/driver/nvidia/version")
_OF_KERNEL = ("/proc/", "/sys/", "/dev/")  # reading may wait there, or never end
_PACKAGES = ("site-packages", "dist-packages")


def with_what_is_at_hand(facts: LogFacts, beside: Path | None = None, driver: Path = _DRIVER) -> LogFacts:
    """Return the facts of a log, with those of the script and the packages that its traceback names.

    If one of them is at hand, the log is of this machine, and so is the driver.

    Args:
        facts: what the log says.
        beside: the folder of the log, where a script with a relative path is looked for after the current one.
        driver: the file in which the NVIDIA driver states its version.
    """
    script, unread = _script(facts.own_place, beside)
    versions, folder = _versions(facts.library_place)
    if script is None and not unread and not folder:
        return facts
    if not any(each.library == "driver" for each in facts.versions):
        versions = (*versions, *_driver(driver))
    known = {each.library for each in versions}
    return replace(
        facts,
        at_hand=AtHand(script, folder, unread),
        versions=(*(each for each in facts.versions if each.library not in known), *versions),
        failed=(*facts.failed, *_tried_by(script)),
    )


def _script(place: CodePlace | None, beside: Path | None) -> tuple[SeenScript | None, str]:
    """Return the script with the statement that failed, or why it cannot be read; neither if it is not at hand."""
    if place is None or not place.code or place.code_line is None:
        return None, ""
    for folder in (Path(), beside):
        if folder is None:
            continue
        text = _text(folder / place.file)
        if text is not None and _is_line(text, place):
            return _parsed(text, place)
    return None, ""


def _text(path: Path) -> str | None:
    try:
        if os.path.realpath(path).startswith(_OF_KERNEL):
            return None
        return read_regular(path, _MOST_BYTES).decode()
    except (OSError, ValueError):
        return None  # it is not here, not a file, too large, or not text


def _is_line(text: str, place: CodePlace) -> bool:
    """True if the traceback shows this line of the file."""
    lines = text.splitlines()
    number = place.code_line or 0
    return 0 < number <= len(lines) and lines[number - 1].strip() == place.code.strip()


def _parsed(text: str, place: CodePlace) -> tuple[SeenScript | None, str]:
    number = place.code_line or 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the script's own escapes
            tree = ast.parse(text)
        calls = sorted(_calls(tree), key=lambda call: call.line)
        return SeenScript(place.file, number, _statement(tree, text, number), tuple(calls)), ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None, f"{place.file} cannot be read as Python, so only the log was read"


def _statement(tree: ast.Module, text: str, number: int) -> str:
    """Return the innermost simple statement that contains the line, or the line itself."""
    simple = (
        node
        for node in _walked(tree)
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.lineno <= number <= (node.end_lineno or 0)
    )
    node = next(simple, None)
    lines = text.splitlines()
    shown = lines[number - 1 : number] if node is None else lines[node.lineno - 1 : node.end_lineno]
    return " ".join(" ".join(shown).split())[:_LONGEST]


def _calls(tree: ast.Module) -> Iterator[ScriptCall]:
    found = 0
    for node in _walked(tree):
        if isinstance(node, ast.Call) and (name := _name(node.func)) in _CALLS and found < _MOST_CALLS:
            found += 1
            named = {each.arg: _source(each.value) for each in node.keywords if each.arg}
            yield ScriptCall(
                name, node.lineno, {**{str(i): _source(each) for i, each in enumerate(node.args)}, **named}
            )


def _walked(tree: ast.Module) -> Iterator[ast.AST]:
    for count, node in enumerate(ast.walk(tree)):
        if count > _MOST_NODES:
            return
        yield node


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _source(value: ast.expr) -> str:
    """Return a literal or a name as written; a longer expression says nothing here."""
    if isinstance(value, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp):
        return ast.unparse(value)[:_LONGEST_ARGUMENT]
    return "..."


def _tried_by(script: SeenScript | None) -> Iterator[FailedAlready]:
    """Yield what the script does already: it trains with the smallest batch."""
    calls = script.calls_of("fit", "batch") if script else []
    if any(
        call.arguments.get("batch_size", call.arguments.get("0") if call.name == "batch" else "") == "1"
        for call in calls
    ):
        yield FailedAlready("smaller batch", None)


def _versions(place: CodePlace | None) -> tuple[Sequence[LibraryVersion], str]:
    """Return the versions in the folder of packages that a frame names, if its file is the one that was run."""
    if place is None or not place.code:
        return (), ""
    head, name, _ = next((parts for each in _PACKAGES if (parts := place.file.partition(f"/{each}/"))[1]), ("", "", ""))
    text = _text(Path(place.file)) if head else None
    if text is None or not _is_line(text, place):
        return (), ""
    folder = head + name.rstrip("/")
    try:
        infos = [each for each in os.listdir(folder) if each.endswith(".dist-info")]
    except OSError:
        return (), ""
    return tuple(_named(infos)), folder


def _driver(file: Path) -> Iterator[LibraryVersion]:
    """Yield the version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ..."."""
    try:
        text = file.read_bytes()[:_LONGEST].decode()
    except (OSError, ValueError):
        return
    found = next((word for word in text.partition("\n")[0].split() if word[:1].isdigit() and "." in word), "")
    if text.startswith("NVRM") and found:
        yield LibraryVersion("driver", VersionRange.exactly(version(found)), None)


def _named(infos: Sequence[str]) -> Iterator[LibraryVersion]:
    libraries = {library.lower().replace("-", "_"): library for library in get_args(Library)}
    aliases = {"tensorflow_cpu": "tensorflow", "tensorflow_intel": "tensorflow", "tensorflow_macos": "tensorflow"}
    for info in sorted(infos):
        package, _, number = info.removesuffix(".dist-info").partition("-")
        library = libraries.get(aliases.get(package.lower(), package.lower()))
        if library is not None and (known := version(number)):
            yield LibraryVersion(library, VersionRange.exactly(known), None)
