"""Bytes of a checkpoint that a script may unpickle: plain data only."""

from __future__ import annotations

import bz2
import copyreg
import gzip
import io
import lzma
import os
import pickle
import zlib
from collections import OrderedDict

import numpy as np
import pytest

from oomph.objects.admission import RefusedError, admitted
from oomph.objects.texts import Among
from oomph.script import restorable

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
COMPRESSIONS = [bytes, gzip.compress, zlib.compress, bz2.compress, lzma.compress]


class Calls:
    def __reduce__(self):
        return os.system, ("true",)


def variants(kept):
    """The pickle, and behind the beginning of another one."""
    return [kept, pickle.dumps(1) + kept, b"(" + kept]


@pytest.mark.parametrize("compress", COMPRESSIONS, ids=["plain", "gzip", "zlib", "bz2", "xz"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "thing",
    [Calls(), [1.5, Calls()], print, os.system, np.zeros(3), np.dtype("f4")],
    ids=["call", "both", "name", "os", "array", "type"],
)
def test_pickled_objects_are_refused(thing, protocol, compress):
    for content in map(compress, variants(pickle.dumps(thing, protocol))):
        for new in (content, (1, (content,)), np.array([content], object)):
            with pytest.raises(RefusedError, match="unpickles"):
                admitted(new, b"before")


def test_pickles_using_registered_extension_numbers_are_refused():
    copyreg.add_extension("posix", "system", 200)
    try:
        for content in (pickle.dumps(os.system, 2), b"\x84\xc8\x00\x00\x00."):
            with pytest.raises(RefusedError, match="unpickles"):
                admitted(content, b"before")
    finally:
        copyreg.remove_extension("posix", "system", 200)


def test_existing_pickled_objects_are_allowed():
    content = pickle.dumps(print)
    assert admitted(content, content) == content
    assert admitted(content, Among((b"", content))) == content


@pytest.mark.parametrize("compress", COMPRESSIONS, ids=["plain", "gzip", "zlib", "bz2", "xz"])
@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize(
    "thing",
    [
        [1, 2.5, 1j, "a", b"b", slice(3)],
        {"epoch": 3, "names": ["a", {1, 2}, None, b"c", 1.5, frozenset("a")]},
        OrderedDict(a=1),
    ],
    ids=["list", "dict", "ordered"],
)
def test_pickled_numbers_and_containers_are_allowed(thing, protocol, compress):
    content = compress(pickle.dumps(thing, protocol))
    assert admitted(content, b"") == content


def test_bytes_that_are_not_pickles_are_allowed():
    broken = [b"\x80", b"\x80\x04", b"x\x9c", zlib.compress(b"a")[:-1]]
    without_a_name = [b"\x82\x00", b"\x82\x01.", b"NN\x93.", b"NN\x92.", b"V", b"cos", b"I1_0"]
    others = [b"", b"(", b"(a, b)", b"best.keras", b"c", np.arange(1000.0).tobytes(), bytes(range(1, 256))]
    for content in broken + without_a_name + others:
        assert admitted(content, b"") == content


def test_compressed_bytes_too_long_to_inspect_are_refused(monkeypatch):
    monkeypatch.setattr(restorable, "_MOST", 1000)
    for compress in COMPRESSIONS[1:]:
        assert admitted(compress(bytes(1000)), b"") == compress(bytes(1000))
        with pytest.raises(RefusedError):
            admitted(compress(bytes(1001)), b"")
    with pytest.raises(RefusedError):
        admitted(zlib.compress(pickle.dumps(print)) + b"more", b"")


@pytest.mark.parametrize("make", [bytearray, io.BytesIO, lambda kept: [kept]], ids=["bytearray", "buffer", "list"])
def test_objects_keep_their_bytes_when_pickles_are_refused(resume, make):
    def put(content):
        def into(thing):
            if type(thing) is io.BytesIO:
                thing.seek(0)
                thing.truncate()
                thing.write(content)
            else:
                thing[:] = content if type(thing) is bytearray else [content]

        return into

    def held(thing):
        return thing.getvalue() if type(thing) is io.BytesIO else bytes(thing) if type(thing) is bytearray else thing[0]

    refused = resume(lambda: make(b"before"), put(pickle.dumps(print)))
    assert held(refused.resumed) == b"before"
    assert len(refused.lost) == 1
    assert "pickled objects" in refused.lost[0]
    data = pickle.dumps({"best": {1, 2, 3}})
    plain = resume(lambda: make(b"before"), put(data))
    assert (held(plain.resumed), plain.lost) == (data, [])


@pytest.mark.parametrize("compress", COMPRESSIONS[1:], ids=["gzip", "zlib", "bz2", "xz"])
def test_compressed_values_are_unpacked_only_up_to_a_total_size(compress, monkeypatch):
    """Also those that are broken only at their ends."""
    monkeypatch.setattr(restorable, "_MOST", 50_000)
    monkeypatch.setattr(restorable, "_MOST_IN_ALL", 100_000)
    whole = compress(bytes(40_000))
    for first, fit in ((whole, 2), (whole[:-1], 2)):
        unpacking = restorable.Unpacking()
        for _ in range(fit):
            assert admitted(first, b"", unpacking) == first
        with pytest.raises(RefusedError):
            admitted(whole, b"", unpacking)
        assert admitted(b"plain", b"", unpacking) == b"plain"
