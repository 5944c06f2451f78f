"""Marks a process of the script as joined, so that its parent can tell it from others. Standard library only.

A process that oomph has joined maps a page of this name. A fork inherits it, whatever descriptors it closes; a newly
started program has none until oomph joins it, which happens before TensorFlow is imported.
"""

from __future__ import annotations

import mmap
import os

MARK = "oomph-joined"


def mark() -> bool:
    """Mark this process as joined; False if the kernel does not support the mark."""
    try:
        import ctypes

        fd = os.memfd_create(MARK, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, mmap.PAGESIZE)
            page = mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
    except (AttributeError, ImportError, OSError, ValueError):
        return False
    # Never freed: at the end of Python its modules go first, and TensorFlow's libraries stay mapped for a while.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(page))
    return True
