"""The main function of the isolated child process: reads the call, makes it, answers, all through two pipes."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys

from oomph.process.isolation import serialisation
from oomph.process.isolation.descendants import adopt_orphans, end_own_strays
from oomph.process.spawn import die_with


def main() -> None:
    """`python -c ... PATH IN OUT CALLER`: the descriptors of the call and the answer, and the pid of the caller."""
    die_with(int(sys.argv[4]))
    pid = os.getpid()
    adopt_orphans()
    atexit.register(end_own_strays, pid)  # registered first, so called last, after every thread has ended
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=False)
    read_fd, write_fd = int(sys.argv[2]), int(sys.argv[3])
    with os.fdopen(read_fd, "rb") as stream:
        call = stream.read()
    try:
        fn, args, kwargs = serialisation.unpack_call(call)
        answer, code = serialisation.pack_value(fn(*args, **kwargs)), 0
    except SystemExit as error:
        answer, code = serialisation.pack_error(error), error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        answer, code = serialisation.pack_error(error), 1
    if os.getpid() == pid:  # forks of the function may come here too, by sys.exit
        with os.fdopen(write_fd, "wb") as stream:
            stream.write(answer)
    sys.exit(code)
