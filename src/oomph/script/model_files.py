"""Tells harmless Keras model and weight files from those that make a reader call something.

A model that is read imports what its description names, such as the function of a Lambda layer, and HDF5 may hold
pickles and lead to other files. Standard library only: HDF5 is looked at with the h5py that the script has imported.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

from oomph.script.pickled import may_be_pickled

HDF5 = b"\x89HDF\r\n\x1a\n"
_CALLING = frozenset(
    ("function", "Lambda", "__lambda__", "__typespec__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
) | {"TensorFlowOpLayer", "TFOpLambda", "SlicingOpLambda", "ClassMethod", "InstanceMethod", "InstanceProperty"}
_DESCRIPTIONS = ("model_config", "training_config")
_MOST_OBJECTS = 100_000
_MOST_BYTES = 1 << 20


def is_plain_document(document: Any) -> bool:
    """True unless the JSON describes a function or a class outside Keras."""
    if isinstance(document, list):
        return all(map(is_plain_document, document))
    if not isinstance(document, dict):
        return True
    name, module = document.get("class_name"), document.get("module")
    if "class_name" in document and not (name not in _CALLING if isinstance(name, str) else False):
        return False
    if "class_name" in document and not (module is None or _is_of_keras(module)):
        return False
    return all(map(is_plain_document, document.values()))


def _is_of_keras(module: Any) -> bool:
    return isinstance(module, str) and (module == "keras" or module.startswith("keras."))


def is_plain_hdf5(content: bytes) -> bool:
    """True for HDF5 without pickles, functions or external data; False if it cannot be inspected."""
    h5py = sys.modules.get("h5py")
    if h5py is None:
        return False
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            return all(_is_plain(thing, h5py) for thing in _objects(file))
    except Exception:
        return False  # damaged, or a type that this h5py does not know


def _objects(file: Any) -> Iterator[Any]:
    found = [file]
    file.visititems(lambda _, thing: found.append(thing) if len(found) <= _MOST_OBJECTS else True)
    if len(found) > _MOST_OBJECTS:
        raise ValueError("too many objects")
    return iter(found)


def _is_plain(thing: Any, h5py: Any) -> bool:
    if not all(_is_plain_attribute(name, thing.attrs[name]) for name in thing.attrs):
        return False
    if isinstance(thing, h5py.Group):
        return not any(isinstance(thing.get(name, getlink=True), h5py.ExternalLink) for name in thing)
    if not isinstance(thing, h5py.Dataset):
        return True  # a type with a name
    if thing.external or thing.is_virtual:
        return False
    return thing.dtype.kind not in "SV" or (thing.nbytes <= _MOST_BYTES and not may_be_pickled(thing[()].tobytes()))


def _is_plain_attribute(name: str, value: Any) -> bool:
    """False for texts that end with ".", which PyTables unpickles, and models that call something."""
    if name == "PSEUDOATOM":
        return False
    if getattr(value, "shape", None) == ():
        value = value.item() if value.dtype.kind in "OSU" else value.tobytes()
    if isinstance(value, (str, bytes)):
        text = value.encode() if isinstance(value, str) else value
        if text.endswith(b".") or may_be_pickled(text):
            return False
        return name not in _DESCRIPTIONS or is_plain_document(json.loads(text))
    return name not in _DESCRIPTIONS
