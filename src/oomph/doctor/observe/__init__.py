"""Takes the Snapshot of the machine, in the process of `oomph doctor` or `oomph run`.

If a part cannot be observed, `unread` records the reason, and the other parts are still observed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from oomph.doctor.observe.drivers import Questions
from oomph.doctor.observe.host import observe_environment, observe_host, observe_toolchain
from oomph.doctor.observe.libraries import observe_libraries, search_path, with_version
from oomph.doctor.observe.packages import observe_packages
from oomph.doctor.observe.python import observe_python
from oomph.doctor.observe.tensorflow import observe_tensorflow
from oomph.doctor.snapshot import Driver, HostFacts, Library, NvmlAnswers, Packages, Snapshot, Toolchain
from oomph.errors import OomphError

_Part = TypeVar("_Part")


def observe(
    python: str | None = None,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Snapshot:
    """Observe the machine as a script that this Python runs in this environment would see it.

    Args:
        python: the script's Python; None means oomph's own.
        environ: the script's environment; None means oomph's own.
        say: a function that is called with a message if the drivers take a long time to answer.

    Raises:
        ExamineError: if the Python does not answer.
    """
    environ = os.environ if environ is None else environ
    started, parts = time.monotonic(), _Parts()
    interpreter = observe_python(python or sys.executable, environ)
    packages = parts.take("packages", lambda: observe_packages(interpreter.path), Packages())
    tensorflow = parts.take("tensorflow", lambda: observe_tensorflow(packages, environ), None)
    none: tuple[Library, ...] = ()
    libraries = parts.take(
        "libraries",
        lambda: observe_libraries(tensorflow, packages, search_path(tensorflow, interpreter.path, environ)),
        none,
    )
    questions = Questions(libraries, environ, say=say)  # starts now, and runs while files are read
    snapshot = Snapshot(
        python=interpreter,
        host=parts.take("host", lambda: observe_host(environ), HostFacts()),
        packages=packages,
        tensorflow=tensorflow,
        toolchain=parts.take("toolchain", lambda: observe_toolchain(interpreter.path, environ), Toolchain()),
        driver=parts.take("driver", questions.driver, Driver()),
        nvml=parts.take("nvml", questions.nvml, NvmlAnswers()),
        libraries=parts.take("libraries", lambda: _with_versions(libraries, questions.versions()), libraries),
        environment=observe_environment(environ),
    )
    return replace(snapshot, unread=parts.unread, seconds=round(time.monotonic() - started, 4))


class _Parts:
    """Observes the parts of a snapshot, and records those that fail."""

    def __init__(self) -> None:
        self.unread: dict[str, str] = {}
        """The reason why each missing part of the snapshot could not be observed."""

    def take(self, name: str, look: Callable[[], _Part], otherwise: _Part) -> _Part:
        """Return what `look` returns, or `otherwise` if it fails."""
        try:
            return look()
        except OomphError:
            raise
        except Exception as error:
            self.unread[name] = f"{type(error).__name__}: {error}"
            return otherwise


def _with_versions(libraries: Sequence[Library], versions: Mapping[str, str]) -> tuple[Library, ...]:
    return tuple(with_version(library, versions) for library in libraries)
