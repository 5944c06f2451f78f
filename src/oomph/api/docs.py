"""Writes the reference of the package: `python -m oomph.api.docs docs/reference/python.md`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path

import oomph

_Defined = ast.FunctionDef | ast.ClassDef
_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Attributes):$")
_ENTRY = re.compile(r"    (\*{0,2}[a-z_A-Z][\w., *]*): (.*)")


def document() -> str:
    """Return the reference of the public names, generated from their signatures and docstrings."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Python\n"
    yield "Generated from the docstrings by `python -m oomph.api.docs`."
    yield "`import oomph` imports neither TensorFlow nor Keras.\n"
    for name, module in sorted(vars(oomph)["_PUBLIC"].items(), key=lambda named: named[0].lower()):
        yield from _entry(f"oomph.{name}", _definition(module, name))
    yield "\n## oomph.testing\n"
    tree = _tree("oomph.testing")
    yield from _text(ast.get_docstring(tree) or "")
    for node in tree.body:
        if isinstance(node, _Defined) and not node.name.startswith("_"):
            yield from _entry(f"oomph.testing.{node.name}", node)
    yield ""


def _tree(module: str) -> ast.Module:
    """Return a module's syntax tree. Importing it instead could import TensorFlow."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f"there is no module {module}")
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _definition(module: str, name: str) -> _Defined:
    for node in _tree(module).body:
        if isinstance(node, _Defined) and node.name == name:
            return node
    raise LookupError(f"{module} does not define {name}")


def _entry(name: str, node: _Defined) -> Iterator[str]:
    yield f"\n## {name}\n" if name.count(".") == 1 else f"\n### {name}\n"
    yield f"```text\n{_signature(name, node)}\n```\n"
    yield from _text(ast.get_docstring(node) or "")
    if isinstance(node, ast.ClassDef):
        yield from _members(node)


def _signature(name: str, node: _Defined) -> str:
    """Return the call of a function, or of a class that defines how it is created."""
    made_by = node if isinstance(node, ast.FunctionDef) else _method(node, "__init__")
    if made_by is None:
        return name
    arguments = ast.unparse(made_by.args).removeprefix("self, ").removeprefix("self")
    returns = f" -> {ast.unparse(made_by.returns)}" if made_by is node and made_by.returns else ""
    return f"{name}({arguments}){returns}"


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Yield a line for each documented method or property."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_") and ast.get_docstring(item):
            first, _, _ = (ast.get_docstring(item) or "").partition("\n\n")
            yield f"- `{item.name}`: {' '.join(first.split())}"


def _text(docstring: str) -> Iterator[str]:
    """Yield a docstring as Markdown: sections become lists, indented code becomes a block."""
    section = False
    for line in cleandoc(docstring).splitlines():
        if heading := _SECTION.match(line):
            section = True
            yield f"**{heading[1]}**\n"
        elif section and (entry := _ENTRY.match(line)):
            yield f"- `{entry[1]}`: {entry[2]}"
        elif section:
            yield line[4:]
        else:
            yield line
    yield ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
