"""What native code writes is kept, with the lines that belong to it."""

from __future__ import annotations

from oomph.reach.start_up_noise import StartUpNoise

HEAD = b"W0000 00:00:1795712924.111805 7 "
REPORT = (
    HEAD + b"bfc_allocator.cc:502] Allocator (cpu) ran out of memory trying to allocate 381.47MiB\n"
    b"If the cause is memory fragmentation maybe the environment variable will improve the situation.\n"
    b"Current allocation summary follows.\n" + HEAD + b"bfc_allocator.cc:1128] Stats: \n"
    b"Limit:                       300.00MiB\n"
    b"\n"
)
NODE = HEAD + b"local_rendezvous.cc:407] Local rendezvous is aborting\n\t [[{{node dense/MatMul}}]]\n"
TRACEBACK = b"Traceback (most recent call last):\n  File x\nKeyError: 1\n"


def test_allocator_report_before_a_traceback_is_held_back() -> None:
    noise = StartUpNoise()
    assert noise.take(b"own\n" + REPORT + TRACEBACK) == b"own\n" + TRACEBACK
    assert noise.release() == REPORT


def test_node_name_is_held_back_with_the_line_before_it() -> None:
    noise = StartUpNoise()
    assert noise.take(NODE + b"own\n") == b"own\n"
    assert noise.release() == NODE
