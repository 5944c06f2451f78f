"""`python -m oomph` is the `oomph` command."""

import sys

from oomph.cli import main

if __name__ == "__main__":
    sys.exit(main())
