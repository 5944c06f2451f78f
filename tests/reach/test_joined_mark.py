"""A joined process's mark has to outlive Python, since TensorFlow's libraries do."""

import subprocess
import sys

ENDS = """
import os, sys
from oomph.reach.channel import MARK, mark_joined

assert mark_joined()

class Last:
    def __del__(self, open_=os.open, read=os.read, write=os.write, mark=MARK.encode()):
        fd, maps = open_("/proc/self/maps", 0), b""
        while piece := read(fd, 1 << 20):
            maps += piece
        write(1, b"marked" if mark in maps else b"not marked")

del mark_joined, os
sys.last_one = Last()  # the last module that Python clears
"""


def test_joined_process_stays_marked_until_it_exits():
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("marked", "")
