"""The public names: complete, described and typed, so that editors and type checkers know what scripts call."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oomph
import oomph.testing

STUB = ast.parse(Path(oomph.__file__).with_suffix(".pyi").read_text())
NAMES = [name for name in oomph.__all__ if name != "__version__"]


def described() -> Iterator[tuple[str, Any]]:
    """Yield the public names of both modules, and the public methods of their classes."""
    for module, names in ((oomph, NAMES), (oomph.testing, oomph.testing.__all__)):
        for name in names:
            found = getattr(module, name)
            yield f"{module.__name__}.{name}", found
            if inspect.isclass(found) and found.__module__.startswith("oomph"):
                yield from ((f"{name}.{key}", value) for key, value in vars(found).items() if is_public(key, value))


def is_public(name: str, value: Any) -> bool:
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))


DESCRIBED = dict(described())


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_every_public_name_is_described_in_one_plain_sentence(name: str) -> None:
    doc = inspect.getdoc(DESCRIBED[name]) or ""
    assert doc.partition("\n")[0].endswith((".", ":")), f"{name}: {doc.partition(chr(10))[0]}"


@pytest.mark.parametrize("name", sorted(DESCRIBED))
def test_every_public_function_is_annotated(name: str) -> None:
    found = DESCRIBED[name]
    function = found.fget if isinstance(found, property) else found.__init__ if inspect.isclass(found) else found
    if not inspect.isfunction(function) or not function.__module__.startswith("oomph"):
        return  # a constructor of Python's or of Keras'
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
    assert bare == []
    assert signature.return_annotation is not signature.empty


def test_type_checkers_see_the_names_that_python_sees() -> None:
    imported = {
        alias.name: node.module
        for node in STUB.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # which exports it
    }
    assert imported == oomph._PUBLIC
    [listed] = [node.value for node in STUB.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(listed) == oomph.__all__


def test_reference_of_the_testing_module_has_each_name_with_its_arguments() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/reference/testing.md").read_text()
    hooks = [value for key, value in vars(oomph.testing.Injector).items() if is_public(key, value)]
    for function in (oomph.testing.injecting, *hooks):
        names = [name for name in inspect.signature(function).parameters if name != "self"]
        assert f"| `{function.__name__}({', '.join(names)})` |" in page
    assert "| `OutOfMemory(samples, after=0)` |" in page
    assert "| `Injector` |" in page
