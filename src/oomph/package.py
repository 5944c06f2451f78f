"""The folder of oomph's own files. What lies in it is never taken for the user's code. Standard library only."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
