"""`python -m oomph` is the `oomph` command."""

import sys

from oomph.entry import command

if __name__ == "__main__":
    sys.exit(command())
