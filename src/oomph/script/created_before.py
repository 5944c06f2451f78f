"""Detects the files and folders that a script creates, and lets a restarted script create them again.

Python calls an audit hook before an event takes place. A path that does not exist at that point, but exists at the next
event in the same thread, was created between the two, because Python raises an event for everything that it does to a
file. The hook is called for every event in the process, and returns immediately for all but a few kinds. It never
raises.

`os.mkdir`, an exclusive `open` and similar calls raise FileExistsError when a script starts a second time. Here, they
succeed just like the first time if an earlier attempt created the same thing at the same line, and it still exists: it
must have been created while that attempt was writing its notes. A folder stays as it is, a file is opened empty, and a
link is recreated. Everything else fails as in plain Python. A function is replaced only if an earlier attempt created
something with it. Standard library only.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import stat
import sys
from _thread import get_ident
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from oomph.files.opening import is_reaching
from oomph.protocol.creations import DIRECTORY, FILE, LINK, Creation, Earlier, Notes
from oomph.script.loop_location import catches
from oomph.script.script_line import ScriptLine, caller, calling, calling_frames

Hook = Callable[[str, tuple[Any, ...]], None]

_EXCLUSIVE = os.O_CREAT | os.O_EXCL
_EVENTS = frozenset(("open", "os.mkdir", "os.symlink", "os.link", "os.rename"))
_NAMES_OF_THEIR_OWN = ("tempfile", "importlib._bootstrap_external", "_frozen_importlib_external")
"""Modules that choose a new name each time, so that a restart cannot cause a collision."""
_TAKE_EXIST_OK = ("os", "pathlib")


class Creating:
    """Records what this attempt's owner process creates, ignoring any processes that it starts or forks."""

    def __init__(self, notes: Notes, earlier: Earlier) -> None:
        self._notes, self._earlier, self._pid = notes, earlier, os.getpid()
        self._pending: dict[int, tuple[str, Creation]] = {}
        """Maps a thread's identifier to the creation that the thread has started."""
        self._counts: dict[tuple[str, str, str], int] = {}
        self.paths: set[str] = set()
        """The paths that this attempt has created, or is considered to have created."""

    def watch(self) -> None:
        """Install the audit hook, which cannot be removed."""
        sys.addaudithook(self.hook())

    def hook(self) -> Hook:
        """Return the audit hook. It only uses closures, since it runs for every event until Python has shut down."""
        events, pending, settle, see = _EVENTS, self._pending, self._settle, self._see

        def notice(event: str, args: tuple[Any, ...]) -> None:
            if pending:
                settle()
            if event in events:
                see(event, args)

        return notice

    def is_owner_now(self) -> bool:
        """True in the owner process itself, but not in its forks, which inherit the hook."""
        return os.getpid() == self._pid

    def next(self, kind: str, path: str, place: str) -> Creation:
        """Return the next creation with this kind, path and place, including its number."""
        return Creation(kind, path, place, self._counts.get((kind, path, place), 0) + 1)

    def done(self, creation: Creation) -> None:
        """Record that a creation is complete."""
        self._counts[creation[:3]] = creation.number
        self.paths.add(creation.path)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        try:
            self._note(event, args)
        except Exception:
            pass  # a later attempt won't be helped with it, but the script must not notice

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        asked = _asked(event, args)
        if asked is None or is_reaching() or not self.is_owner_now():
            return
        kind, path = asked
        if not kind:
            self._note_rename(os.fsdecode(args[0]), path)
        elif not os.path.lexists(path) and not is_left_alone():
            line = calling()
            if line is not None:
                creation = self.next(kind, path, line.place)
                name = self._notes.about_to(creation)
                if name:
                    self._pending[get_ident()] = name, creation

    def _note_rename(self, source: str, path: str) -> None:
        if path in self.paths or path in self._earlier.paths:
            inode = os.lstat(source).st_ino
            self._notes.renamed(path, inode)
            self._earlier.renamed(path, inode)

    def _settle(self) -> None:
        """Check whether the path that this thread was creating exists now."""
        try:
            name, creation = self._pending.pop(get_ident(), ("", None))
            if creation is None or not self.is_owner_now():
                return
            inode = _inode(creation.path)
            self._notes.ended(name, inode)
            if inode is not None:
                self.done(creation)
        except Exception:
            pass


def is_left_alone() -> bool:
    """True if the calling code accepts existing files or chooses a new name each time."""
    frame = caller()
    if frame is None:
        return True
    module = str(frame.f_globals.get("__name__"))
    takes_what_is_there = module.startswith(_TAKE_EXIST_OK) and frame.f_locals.get("exist_ok") is True
    return takes_what_is_there or module in _NAMES_OF_THEIR_OWN


def _asked(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    """Return the kind and path of an event's creation, with an empty kind for a rename, or None for other events."""
    if event == "open":
        new = isinstance(args[2], int) and args[2] & _EXCLUSIVE == _EXCLUSIVE
        return (FILE, _absolute(args[0])) if new and not isinstance(args[0], int) else None
    kind, path, folder = _KINDS[event]
    return (kind, _absolute(args[path])) if args[folder] == -1 else None


_KINDS = {
    "os.mkdir": (DIRECTORY, 0, 2),
    "os.symlink": (LINK, 1, 2),
    "os.link": (LINK, 1, 3),
    "os.rename": ("", 1, 3),
}
"""Maps an event to the kind of creation, and the argument positions of the path and its folder descriptor."""


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except OSError:
        return None


Tell = Callable[[str, str, str], None]
"""Called for a creation that counts as done, with its kind and path and the line of the script."""

_CATCHING = frozenset(("FileExistsError", "OSError", "IOError", "EnvironmentError", "Exception", "BaseException"))
_BY_NAME = frozenset(("FileExistsError",))
_IS_OF_KIND: Mapping[str, Callable[[int], bool]] = {
    DIRECTORY: stat.S_ISDIR,
    FILE: stat.S_ISREG,
    LINK: lambda mode: stat.S_ISLNK(mode) or stat.S_ISREG(mode),
}


class Before:
    """Decides whether a creation that failed because the path already exists counts as done."""

    def __init__(self, earlier: Earlier, creating: Creating, tell: Tell) -> None:
        self._earlier, self._creating, self._tell = earlier, creating, tell

    def replace_functions(self) -> None:
        """Replace the Python functions that an earlier attempt used to create files, folders or links."""
        kinds = self._earlier.kinds
        if DIRECTORY in kinds:
            _MakeDirectory(os.mkdir, "os", self).replace(os, "mkdir")
        if FILE in kinds:
            descriptor = _OpenDescriptor(os.open, "os", self)
            _Open(builtins.open, "io", self, descriptor.existing).replace(builtins, "open", io)
            descriptor.replace(os, "open")
        if LINK in kinds:
            _Link(os.symlink, "os", self).replace(os, "symlink")
            _Link(os.link, "os", self).replace(os, "link")

    def accepts(self, kind: str, path: Any, then: Callable[[str, int], Any], source: Any = None) -> Any:
        """Finish a creation and count it as done, or return `FAILS` if it wasn't created in an earlier attempt.

        Args:
            path: the path as passed by the script.
            then: finishes the creation, given the absolute path and inode of the existing file or folder.
            source: for a hard link, its target file, which is older than the link.
        """
        try:
            found = self._found(kind, path, source)
            if found is None:
                return FAILS
            creation, inode, line = found
            result = then(creation.path, inode)
            self._creating.done(creation)
            self._tell(kind, creation.path, line.site)
        except Exception:
            return FAILS
        return result

    def _found(self, kind: str, path: Any, source: Any) -> tuple[Creation, int, ScriptLine] | None:
        if isinstance(path, int) or not self._creating.is_owner_now() or is_left_alone():
            return None
        line = calling()
        if line is None or _is_expected():
            return None  # the script handles the error itself
        creation = self._creating.next(kind, os.path.abspath(os.fsdecode(path)), line.place)
        status = os.lstat(creation.path)
        if not (_IS_OF_KIND[kind](status.st_mode) and self._earlier.has(creation)):
            return None
        is_still = self._earlier.is_still(creation.path, status.st_ino) or _is_name_of(source, creation.path)
        return (creation, status.st_ino, line) if is_still else None


FAILS = object()


def _is_name_of(source: Any, path: str) -> bool:
    """True if `path` is a hard link to `source`, in which case recreating it does not lose any data."""
    if source is None or os.path.abspath(os.fsdecode(source)) == path:
        return False
    one, other = os.lstat(source), os.lstat(path)
    return os.path.samestat(one, other) and one.st_nlink > 1


def _is_expected() -> bool:
    """True if the script catches the error, by any base class in the calling function or by name in its callers."""
    names = _CATCHING
    for frame in calling_frames():
        if catches(frame, names):
            return True
        names = _BY_NAME
    return False


class _Replacement(ABC):
    """Replaces a Python function with an object that, unlike a function, does not become a method in a class."""

    def __init__(self, original: Callable[..., Any], module: str, before: Before) -> None:
        for name in ("__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(original, name))
        self.__wrapped__ = original  # for `inspect.signature`
        self.__module__ = module
        self._original, self._before = original, before

    def __reduce__(self) -> str:
        return str(vars(self)["__name__"])  # pickle by name, like the original

    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original function. If it fails because the path exists, finish a creation that counts as done."""

    def replace(self, *places: Any) -> None:
        """Replace the original function. `places` contains a module, the function's name, and further modules."""
        module, name, *others = places
        for holder in (module, *others, getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)):
            if getattr(holder, name, None) is self._original:
                setattr(holder, name, self)
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if self._original in known:
                known.add(self)


class _MakeDirectory(_Replacement):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._original(*args, **kwargs)
        except FileExistsError:
            path = args[0] if args else kwargs["path"]
            if kwargs.get("dir_fd") is not None or self._before.accepts(DIRECTORY, path, lambda *_: None) is FAILS:
                raise
            return None


class _OpenDescriptor(_Replacement):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._original(*args, **kwargs)
        except FileExistsError:
            path = args[0] if args else kwargs["path"]
            flags = args[1] if len(args) > 1 else kwargs["flags"]
            result = FAILS
            if flags & _EXCLUSIVE == _EXCLUSIVE and kwargs.get("dir_fd") is None:
                result = self._before.accepts(FILE, path, lambda path, inode: self.existing(path, flags, inode))
            if result is FAILS:
                raise
            return result

    def existing(self, path: str, flags: int, inode: int) -> int:
        """Open the existing file as if it were new. Raises OSError if it has been replaced with a different file."""
        fd: int = self._original(path, flags & ~_EXCLUSIVE | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_ino != inode:
                raise FileExistsError(path)
            os.truncate(fd if flags & (os.O_WRONLY | os.O_RDWR) else path, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd


class _Open(_Replacement):
    def __init__(
        self, original: Callable[..., Any], module: str, before: Before, existing: Callable[[str, int, int], int]
    ) -> None:
        super().__init__(original, module, before)
        self._existing = existing

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
        if type(mode) is not str or "x" not in mode:
            return self._original(*args, **kwargs)
        try:
            return self._original(*args, **kwargs)
        except FileExistsError:
            result = FAILS
            if kwargs.get("opener") is None and len(args) < 8:
                path = args[0] if args else kwargs["file"]
                result = self._before.accepts(
                    FILE, path, lambda path, inode: self._anew(path, inode, args, kwargs)
                )  # fmt: skip
            if result is FAILS:
                raise
            return result

    def _anew(self, path: str, inode: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Open the existing file as `open` would, in the requested mode."""
        opener = functools.partial(self._opened, path, inode)
        return self._original(*args, **{**kwargs, "opener": opener})

    def _opened(self, path: str, inode: int, _: Any, flags: int) -> int:
        return self._existing(path, flags, inode)


class _Link(_Replacement):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._original(*args, **kwargs)
        except FileExistsError:
            path = args[1] if len(args) > 1 else kwargs["dst"]
            source = (args[0] if args else kwargs["src"]) if vars(self)["__name__"] == "link" else None
            elsewhere = any(kwargs.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd"))
            anew = lambda *_: self._anew(path, args, kwargs)  # noqa: E731
            if elsewhere or self._before.accepts(LINK, path, anew, source) is FAILS:
                raise
            return None

    def _anew(self, path: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        os.unlink(path)
        self._original(*args, **kwargs)
