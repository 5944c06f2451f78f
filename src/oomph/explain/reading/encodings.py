"""Detects the encoding of a log from its first bytes, and whether it is text at all."""

from __future__ import annotations

import codecs

from oomph.files.patterns import lazy_pattern

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # starts with the same bytes as UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT = 2000
_RUN_OF_NULS = lazy_pattern(rb"\0{8,}")
_TEXT_CONTROLS = frozenset(b"\a\b\t\n\v\f\r\x1b")
_BINARY_SHARE, _BINARY_SHARE_AROUND_NULS = 0.05, 0.01
_ASCII_SHARE = 0.9


def encoding_of(head: bytes) -> tuple[str, int]:
    """Return Python's name for the encoding, and the length, in bytes, of the byte order mark before the text."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            if _fits(name, head[len(bom) :]):
                return name, len(bom)
            if not name.startswith("utf-32"):
                return "utf-8", len(bom)
    return _wide_without_bom(head) or "utf-8", 0


def looks_binary(head: bytes) -> bool:
    """True if these first bytes belong to something other than text, such as an archive, a model or a core file."""
    encoding, bom = encoding_of(head)
    if encoding != "utf-8":
        return False
    # A log starts with NULs if it was truncated to zero while its writer had it open, and ends with them after a power
    # cut.
    head = head[bom:].strip(b"\0")
    text = _RUN_OF_NULS.sub(b"", head)
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in text)
    return controls > (_BINARY_SHARE if text == head else _BINARY_SHARE_AROUND_NULS) * len(text)


def _fits(encoding: str, rest: bytes) -> bool:
    """True if the text fits its byte order mark, which may instead be two stray bytes before narrow text."""
    rest = rest[:_LOOKED_AT]
    if encoding.startswith("utf-32"):
        return _decodes(encoding, rest)
    return encoding == "utf-8" or not _looks_narrow(rest)


def _looks_narrow(rest: bytes) -> bool:
    """True if the bytes look like ASCII or UTF-8 and have no zero byte: in UTF-16, every space and line end has one."""
    rest = _RUN_OF_NULS.sub(b"", rest.strip(b"\0"))
    if len(rest) < 8 or b"\0" in rest:
        return False
    ascii_bytes = sum(byte < 128 for byte in rest)
    return ascii_bytes >= _ASCII_SHARE * len(rest) or _decodes("utf-8", rest)


def _wide_without_bom(head: bytes) -> str:
    """Detect UTF-16 from a Windows program that does not write a byte order mark: every other byte is 0."""
    if len(head) < 8:
        return ""
    even, odd = (part.count(0) / len(part) for part in (head[:_LOOKED_AT:2], head[1:_LOOKED_AT:2]))
    if odd > 0.9 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.9 and odd < 0.1 else ""


def _decodes(encoding: str, data: bytes) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)
    except UnicodeDecodeError:
        return False
    return True
