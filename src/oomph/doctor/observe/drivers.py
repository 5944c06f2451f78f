"""Queries libcuda, NVML and cuDNN in child processes that run while the rest of the machine is observed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from oomph.doctor.snapshot import CudaDevice, Driver, HoldingProcess, Library, NvmlAnswers, NvmlDevice
from oomph.gpu.question import Answer, Question, cuda_version, cudnn_version

LIMIT_SECONDS = 5.0
"""The time, in seconds, to wait for an answer. On a healthy machine, cuInit takes well under a second; in a broken
driver, it never returns."""


class Questions:
    """Starts all children at once. The methods wait for their answers."""

    def __init__(
        self,
        libraries: Sequence[Library],
        environ: Mapping[str, str],
        limit: float = LIMIT_SECONDS,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        found = {library.soname for library in libraries if library.winner is not None}
        self._limit = limit
        self._slow = lambda: say(f"waiting up to {limit:g} s for the NVIDIA driver")
        self._deadline = time.monotonic() + limit
        self._cuda = Question("ask_cuda.py", (), environ) if "libcuda.so.1" in found else None
        self._nvml = Question("ask_nvml.py", (), environ, bare=False) if "libnvidia-ml.so.1" in found else None
        words = _version_words(libraries)
        self._versions = Question("ask_library.py", words, environ) if words and self._cuda else None

    def driver(self) -> Driver:
        """Return the answers from libcuda. `asked` is False if there is no libcuda."""
        if self._cuda is None:
            return Driver()
        answer = self._cuda.answer(self._deadline, self._limit, self._slow)
        said = answer.facts
        return Driver(
            asked=True,
            path=str(said.get("path") or ""),
            load_error=str(said.get("load_error") or ""),
            cuda_version=said.get("cuda_version"),
            init=said.get("init"),
            init_seconds=said.get("init_seconds"),
            devices=tuple(_known(CudaDevice, row) for row in answer.rows),
            problem=answer.problem,
        )

    def nvml(self) -> NvmlAnswers:
        """Return the answers from NVML. `asked` is False if there is no NVML."""
        if self._nvml is None:
            return NvmlAnswers()
        answer = self._nvml.answer(self._deadline, self._limit, self._slow)
        said = answer.facts
        return NvmlAnswers(
            asked=True,
            unavailable=str(said.get("unavailable") or ""),
            init=said.get("init"),
            error=str(said.get("error") or ""),
            driver=str(said.get("driver") or ""),
            cuda_version=said.get("cuda_version"),
            devices=tuple(_nvml_device(row) for row in answer.rows),
            problem=answer.problem,
        )

    def versions(self) -> dict[str, str]:
        """Return the versions of the libraries that answered, by file."""
        if self._versions is None:
            return {}
        answer = self._versions.answer(self._deadline, self._limit)
        return dict(_versions(answer))


def _version_words(libraries: Sequence[Library]) -> list[str]:
    """Return the arguments for `ask_library.py`: all candidates for cuDNN, and the first one for the CUDA runtime."""
    words: list[str] = []
    for library in libraries:
        kind = library.soname.removeprefix("lib").split(".")[0]
        asked = {"cudnn": library.candidates, "cudart": library.candidates[:1]}.get(kind, ())
        for candidate in asked:
            if not candidate.problem:
                words += [kind, candidate.path]
    return words


def _versions(answer: Answer) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for row in answer.rows:
        number = row.get("version")
        if isinstance(number, int):
            parse = cudnn_version if "libcudnn" in str(row["path"]) else cuda_version
            found[str(row["path"])] = ".".join(map(str, parse(number)))
    return found


def _nvml_device(row: Mapping[str, Any]) -> NvmlDevice:
    held = row.get("processes")
    processes = None if held is None else tuple(_known(HoldingProcess, each) for each in held)
    remapped = row.get("remapped_rows")
    known = {**row, "processes": processes, "remapped_rows": None if remapped is None else tuple(remapped)}
    device: NvmlDevice = _known(NvmlDevice, known)
    return device


def _known(kind: Any, row: Mapping[str, Any]) -> Any:
    """Build a value of type `kind` from a row. Keys that are not fields of that type are ignored."""
    names = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in row.items() if name in names})
