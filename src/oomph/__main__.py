"""The entry point for `python -m oomph`."""

import sys

from oomph.entry import command

if __name__ == "__main__":
    sys.exit(command())
