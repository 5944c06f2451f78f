"""Makes the table of public names: `python benchmarks/public_names.py WHEELS`, which `oomph explain` ships.

WHEELS is a folder of wheels: of keras (`pip download --no-deps keras==2.6.0`, one of each minor version), and of
tensorflow or tensorflow-cpu (or zip files with the METADATA, `_api/v2` and `python/keras` of one). Keras marks what is
public by `@keras_export`, with the parameters beside it; TensorFlow lists it in `_api/v2`. Nothing is imported.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from oomph.explain.public_names.table import FILE

_WHEEL = re.compile(r"(?P<library>keras|tensorflow(?:_cpu)?)-(?P<minor>\d+\.\d+)\.")
_TRAINERS = ("Trainer", "TensorFlowTrainer")
"""Keras 3's classes whose methods are those of keras.Model."""
_NEEDED = re.compile(r"Requires-Dist: (?P<name>numpy|protobuf|keras|h5py|ml-dtypes|tf-keras)(?P<rest>[ (<>=!~][^;\n]*)")

Names = dict[str, set[str]]
"""Public names of one release, each with its parameters; `name(parameter)` is never split."""


def names_of_keras(wheel: zipfile.ZipFile) -> Names:
    """Return the names that the sources in a wheel export, with their parameters."""
    names: Names = {}
    for file in wheel.namelist():
        if file.endswith(".py") and "_test.py" not in file and "/keras/" in f"/{file}":
            for name, parameters in _exported(ast.parse(wheel.read(file))):
                names.setdefault(name, set()).update(parameters)
    return names


def _exported(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not _only_raises(node):
            public = [name for each in node.decorator_list for name in _names_in(each)]
            if isinstance(node, ast.ClassDef) and node.name in _TRAINERS:
                public.append("keras.Model")
            for name in public:
                yield from _with_methods(name, node)


def _only_raises(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """True for a name that is kept to say that it is gone, such as keras.optimizers.legacy.Adam in Keras 3."""
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if isinstance(node, ast.ClassDef):
        return len(body) == 1 and isinstance(body[0], ast.FunctionDef) and _only_raises(body[0])
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def _names_in(decorator: ast.expr) -> Iterator[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "keras_export":
        for argument in decorator.args:
            for each in ast.walk(argument):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value.replace("keras._legacy.", "keras.")  # reachable as tf.keras


def _with_methods(name: str, node: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, ast.FunctionDef):
        yield name, _parameters(node)
        return
    yield name, set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            yield name, _parameters(method)
        elif isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            yield f"{name}.{method.name}", _parameters(method)


def _parameters(function: ast.FunctionDef) -> set[str]:
    arguments = function.args
    named = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return named - {"self", "cls"} | ({"**"} if arguments.kwarg else set())


def names_of_tensorflow(wheel: zipfile.ZipFile, below: str = "_api/v2/") -> Names:
    """Return the names in a folder of modules, without Keras and compat."""
    names: Names = {}
    for file in wheel.namelist():
        parts = file.partition(below)[2].split("/")
        if parts == [""] or parts[0] in ("compat", "keras") or parts[-1] not in ("__init__.py", "v2.py"):
            continue
        module = ".".join(("tf", *parts[:-1]))
        for node in ast.parse(wheel.read(file)).body:
            if isinstance(node, ast.ImportFrom):
                found = (each.asname or each.name for each in node.names)
                names.update({f"{module}.{each}": set() for each in found if not each.startswith("_")})
    return names


def table(folder: Path) -> dict[str, object]:
    """Return the document: for each library its releases, and each name with its first and last one."""
    releases: dict[str, dict[tuple[int, ...], Names]] = {"keras": {}, "tf": {}}
    names_of_1 = set[str]()
    needs, pythons = dict[str, list[str]](), dict[str, list[int]]()
    for path in sorted((*folder.glob("*.whl"), *folder.glob("*.zip"))):
        found = _WHEEL.match(path.name)
        if found is None:
            continue
        release = tuple(map(int, found["minor"].split(".")))
        with zipfile.ZipFile(path) as wheel:
            if found["library"] == "keras":
                releases["keras"][release] = names_of_keras(wheel)
                continue
            releases["tf"][release] = names_of_tensorflow(wheel)
            names_of_1 |= names_of_tensorflow(wheel, "_api/v2/compat/v1/").keys()
            metadata = next(wheel.read(each).decode() for each in wheel.namelist() if each.endswith("/METADATA"))
            if "Requires-Dist: tensorflow-estimator" in metadata:  # a package of its own, loaded when it is used
                releases["tf"][release]["tf.estimator.Estimator"] = set()
            if release < (2, 6):  # Keras was part of TensorFlow
                releases["keras"][release] = names_of_keras(wheel)
            needs[found["minor"]] = sorted(
                {f"{each['name']}{each['rest']}".strip() for each in _NEEDED.finditer(metadata)}
            )
            pythons[found["minor"]] = sorted(
                map(int, re.findall(r"Programming Language :: Python :: 3\.(\d+)", metadata))
            )
    return {
        **{library: _lifetimes(each) for library, each in releases.items()},
        "needs": needs,
        "pythons": pythons,
        "v1": sorted(names_of_1),
    }


def _lifetimes(releases: Mapping[tuple[int, ...], Names]) -> dict[str, object]:
    order = sorted(releases)
    lives: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for place, release in enumerate(order):
        for name, parameters in releases[release].items():
            for each in ("", *parameters):
                lives[name].setdefault(each, [place, place])[1] = place
            module, dot, _ = name.rpartition(".")
            while dot:
                lives[module].setdefault("", [place, place])[1] = place
                module, dot, _ = module.rpartition(".")
    return {
        "releases": [".".join(map(str, each)) for each in order],
        "names": {name: lives[name] for name in sorted(lives)},
    }


if __name__ == "__main__":
    FILE.write_bytes(zlib.compress(json.dumps(table(Path(sys.argv[1])), separators=(",", ":")).encode(), 9))
    print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")
