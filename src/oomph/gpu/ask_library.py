"""Queries CUDA libraries for their versions: `ask_library.py cudnn /path/to/libcudnn.so.9 ...`. Does not need a GPU.

Runs in a child process with only the standard library.
"""

import ctypes
import json
import os
import sys


def _cudnn(path: str) -> int:
    library = ctypes.CDLL(path)
    library.cudnnGetVersion.restype = ctypes.c_size_t
    return int(library.cudnnGetVersion())


def _cudart(path: str) -> "int | None":
    version = ctypes.c_int()
    code = ctypes.CDLL(path).cudaRuntimeGetVersion(ctypes.byref(version))
    return version.value if code == 0 else None


_ASK = {"cudnn": _cudnn, "cudart": _cudart}


def _ask(kind: str, path: str) -> None:
    try:
        answer = {"row": {"path": path, "version": _ASK[kind](path)}}
    except (OSError, AttributeError) as error:
        answer = {"row": {"path": path, "error": str(error)}}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _main() -> None:
    """Query each file in a separate process, since two versions of a library define the same symbols and may crash."""
    for kind, path in zip(sys.argv[1::2], sys.argv[2::2]):  # noqa: B905 (strict needs Python 3.10)
        pid = os.fork()
        if pid == 0:
            _ask(kind, path)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _main()
