"""The supervised kernel's own process: `python -m oomph.notebook.kernel.process [-m MODULE] ARGUMENTS`."""

import runpy
import sys

from oomph.notebook.kernel.launcher import launcher_of, leave_working_directory
from oomph.protocol.handover import Handover
from oomph.protocol.python_stacks import write_crashes
from oomph.script.pulse import inherited
from oomph.script.session import keep_lock_from_children

_EXTENSIONS = ("oomph", "oomph.notebook.kernel.inside")
"""The IPython extensions that the kernel loads in addition to the user's: one guards training, one answers cells."""


def start_kernel() -> None:
    """Run the kernel's launcher as this process's main program, with oomph's extensions."""
    handover = Handover.read()
    if handover is not None:
        keep_lock_from_children(handover.lock_fd)  # now, since cells may start programs before they import Keras
        stacks = inherited(handover.stacks_fd, handover.stacks_inode)
        if stacks is not None:
            write_crashes(stacks)  # now, since cells may crash before that
    module, arguments = launcher_of(sys.argv[1:])
    loaded = [f"--InteractiveShellApp.extra_extensions={name}" for name in _EXTENSIONS]
    sys.argv = [module, *arguments, *loaded]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    leave_working_directory(sys.path)
    start_kernel()
