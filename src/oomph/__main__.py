"""`python -m oomph` is the `oomph` command."""

import sys

from oomph.cli import command

if __name__ == "__main__":
    sys.exit(command())
