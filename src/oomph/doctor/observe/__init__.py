"""observe() takes the Snapshot. What can not be looked at is noted in `unread`; the rest is looked at all the same."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from oomph.doctor.observe.drivers import LIMIT_SECONDS, Questions
from oomph.doctor.observe.environment import observe_environment
from oomph.doctor.observe.host import observe_host
from oomph.doctor.observe.libraries import observe_libraries, search_path, with_version
from oomph.doctor.observe.packages import observe_packages
from oomph.doctor.observe.python import observe_python
from oomph.doctor.observe.tensorflow import observe_tensorflow
from oomph.doctor.observe.toolchain import observe_toolchain
from oomph.doctor.snapshot import Driver, Host, Library, Nvml, Packages, Snapshot, Toolchain
from oomph.errors import OomphError

_Part = TypeVar("_Part")


def observe(
    python: str | None = None,
    environ: Mapping[str, str] | None = None,
    root: Path = Path("/"),
    limit: float = LIMIT_SECONDS,
    say: Callable[[str], None] = lambda text: None,
) -> Snapshot:
    """The machine as a script would find it that this Python runs in this environment.

    Args:
        python: the script's Python; None is oomph's own.
        environ: the script's environment; None is oomph's own.
        root: where /proc, /sys, /dev and /etc lie.
        limit: how long the drivers may take to answer, in seconds.
        say: is told when that takes long.

    Raises:
        ExamineError: the Python does not answer.
    """
    environ = os.environ if environ is None else environ
    started = time.monotonic()
    unread: dict[str, str] = {}

    def part(name: str, look: Callable[[], _Part], otherwise: _Part) -> _Part:
        try:
            return look()
        except OomphError:
            raise
        except Exception as error:
            unread[name] = f"{type(error).__name__}: {error}"
            return otherwise

    interpreter = observe_python(python or sys.executable, environ)
    packages = part("packages", lambda: observe_packages(interpreter.path), Packages())
    tensorflow = part("tensorflow", lambda: observe_tensorflow(packages, environ), None)
    libraries: tuple[Library, ...] = part(
        "libraries",
        lambda: observe_libraries(tensorflow, packages, search_path(tensorflow, interpreter.path, environ, root)),
        (),
    )
    questions = Questions(libraries, environ, limit, say)
    host = part("host", lambda: observe_host(environ, root), Host())
    toolchain = part("toolchain", lambda: observe_toolchain(interpreter.path, environ, root), Toolchain())
    driver = part("driver", questions.driver, Driver())
    nvml = part("nvml", questions.nvml, Nvml())
    versions: dict[str, str] = part("libraries", questions.versions, {})
    snapshot = Snapshot(
        python=interpreter,
        host=host,
        packages=packages,
        tensorflow=tensorflow,
        libraries=tuple(with_version(library, versions) for library in libraries),
        toolchain=toolchain,
        driver=driver,
        nvml=nvml,
        environment=observe_environment(environ),
    )
    return replace(snapshot, unread=unread, seconds=round(time.monotonic() - started, 4))
