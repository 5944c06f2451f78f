"""What a checkpoint may put in place of what is there: data. It never chooses what is called, or which file is written.

A checkpoint may come from anybody. Its data reach the script's own attributes, and the script calls and opens what it
finds there. So a function, a class, a module or anything else that is called stays where this process has put it, and
a path is accepted only below the folders that this process names.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from oomph.recovery.script.named_paths import is_hidden, is_of_a_program
from oomph.tensorflow.objects import code
from oomph.tensorflow.objects.kind import NOTHING, CannotGiveBackError
from oomph.tensorflow.objects.values import HARMLESS_IDS

_CODE = (
    *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, functools.partial, functools.partialmethod),
    *(MethodWrapperType, WrapperDescriptorType, MethodDescriptorType, ClassMethodDescriptorType),
    *(GetSetDescriptorType, MemberDescriptorType, CodeType, FrameType, staticmethod, classmethod, property),
)
_IN_A_HASH = frozenset(("hash", "tuple", "frozenset", "sorted", "id", "type", "str", "repr", "int", "float", "round"))
_LONGEST_PATH = 4096


class RefusedError(CannotGiveBackError):
    """A checkpoint would put something there that it must not choose; the message says what."""


def admitted(new: Any, old: Any = NOTHING) -> Any:
    """`new`, if a checkpoint may put it in place of `old`; raises RefusedError.

    Args:
        old: what is there now; a tuple stands for all that it holds.
    """
    for part in _flat(new):
        if is_called(part) and not any(part is known for known in _flat(old)):
            raise RefusedError(f"a {type(part).__name__}: a checkpoint does not choose what is called")
        if _is_text(part) and is_elsewhere(part, old):
            raise RefusedError("a path outside the folders of the script")
    return new


def is_called(thing: Any) -> bool:
    """True for whatever is there to be called, or leads to it: functions, classes, modules, objects with `__call__`.

    Keras' layers, losses and the like are objects with a state of their own, and count as data.
    """
    kind: Any = type(thing)
    if issubclass(kind, type):
        return id(thing) not in HARMLESS_IDS
    if issubclass(kind, _CODE):
        return True
    return _has_call(kind) and not code.is_holder(kind)


@functools.lru_cache(maxsize=4096)
def _has_call(kind: type) -> bool:
    return any("__call__" in vars(base) for base in kind.__mro__)


def may_be_hashed(key: Any) -> bool:
    """False for a key whose hash the script computes with functions of its own: they would get data of a checkpoint."""
    if issubclass(type(key), (tuple, frozenset)):
        return all(map(may_be_hashed, _items(key)))
    computed = getattr(type(key), "__hash__", None)
    if type(computed) is not FunctionType or not code.is_users(computed.__module__):
        return computed is not None
    return code.names_in(computed.__code__).globals <= _IN_A_HASH


def may_be_set(kind: type, name: Any, held: Mapping[str, Any]) -> bool:
    """True if a checkpoint may set an attribute of that name.

    Args:
        kind: the class of the object.
        held: the attributes that it has now.
    """
    if not is_plain_name(name) or name in code.set_by_libraries(kind):
        return False
    return name in held or hides_nothing(kind, name)


def hides_nothing(kind: type, name: str) -> bool:
    """False if a class has a method or the like of that name."""
    member = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if isinstance(member, (functools.cached_property, MemberDescriptorType)):
        return True
    return not is_called(member) and not any("__get__" in vars(base) for base in type(member).__mro__)


def is_plain_name(name: Any) -> bool:
    """True for the name of an attribute that has no meaning for Python itself."""
    return type(name) is str and not (name.startswith("__") and name.endswith("__"))


def may_be_global(name: Any, module: Mapping[str, Any], names: set[str]) -> bool:
    """True if a checkpoint may assign a global: it is a variable of the script's, or its code names it so.

    Args:
        names: the globals that the code names.
    """
    if not is_plain_name(name):
        return False
    return not is_called(module[name]) if name in module else name in names and not hasattr(builtins, name)


def is_elsewhere(text: Any, old: Any = NOTHING) -> bool:
    """True for a path that this process has not named, outside its folders, hidden, or of a program.

    Args:
        old: the text that is there now, or a tuple of several; its folder is one of the script's.
    """
    path = _as_path(text)
    if not path or any(_as_path(known) == path for known in _flat(old) if _is_text(known)):
        return False
    leads_away = path.startswith(("/", "~")) or ".." in path.split(os.sep)
    if not leads_away:
        return _is_a_program(path) or is_hidden(os.path.dirname(path))
    full = os.path.realpath(os.path.expanduser(path))
    if not _can_be_written(full):
        return False
    folders = [*_folders(), *(os.path.dirname(_as_path(known)) for known in _flat(old) if _is_text(known))]
    inner = (os.path.relpath(full, each) for each in folders if each and _is_below(full, os.path.realpath(each)))
    return all(_is_a_program(each) or is_hidden(each) for each in inner)


def _can_be_written(path: str) -> bool:
    """True for a folder, and for a file in a folder that this user may write to. Words may begin with a slash."""
    folder = os.path.dirname(path)
    return os.path.isdir(path) or (folder != os.sep and os.access(folder, os.W_OK))


def _is_a_program(path: str) -> bool:
    """A word such as `x.py` is only a path if there is such a file."""
    return is_of_a_program(path) and (os.sep in path or os.path.lexists(path))


def _is_below(path: str, folder: str) -> bool:
    return folder != os.sep and (path == folder or path.startswith(folder + os.sep))


def _folders() -> list[str]:
    """The folders of the script: the one it runs in, its own, and those that its arguments name."""
    named = [os.path.dirname(word) for word in sys.argv[1:] if word.startswith("/")]
    whole = [word for word in sys.argv[1:] if word.startswith("/") and os.path.isdir(word)]
    return [os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv[0] else "", *named, *whole]


def _as_path(thing: Any) -> str:
    """The text as a path; empty if it can be none, such as a word."""
    try:
        path = os.fsdecode(thing)
    except (TypeError, ValueError):
        return ""
    looks_like_one = os.sep in path or is_of_a_program(path)
    can_be_one = len(path) < _LONGEST_PATH and not set("\0\n") & set(path) and any(map(str.isalnum, path))
    return path if looks_like_one and can_be_one else ""


def _is_text(thing: Any) -> bool:
    return issubclass(type(thing), (str, bytes, PurePath))


def _flat(thing: Any) -> Iterator[Any]:
    """The thing, or everything in it if it is a tuple or a frozenset."""
    if issubclass(type(thing), (tuple, frozenset)):
        for each in _items(thing):
            yield from _flat(each)
    elif thing is not NOTHING:
        yield thing


def _items(thing: Any) -> Iterator[Any]:
    return frozenset.__iter__(thing) if issubclass(type(thing), frozenset) else tuple.__iter__(thing)
