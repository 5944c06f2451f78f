"""The folder of oomph's own files, which are never treated as user code. Both processes; standard library only."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
