"""The supervisor of a kernel, as a kernelspec starts it: `python -m oomph.notebook.kernel [-m MODULE] ARGUMENTS`."""

import sys

if __name__ == "__main__":
    from oomph.notebook.kernel.launcher import leave_working_directory

    leave_working_directory(sys.path)
    from oomph.notebook.kernel.supervise import supervise

    supervise(sys.argv[1:])
