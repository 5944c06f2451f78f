"""Shapes and the first bytes of files are read as values, not only as words."""

from __future__ import annotations

import pytest

from oomph.explain.facts.fact import FileFormat
from oomph.explain.facts.values import file_head_in, shapes_in


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("Incompatible shapes: [32,10] vs. [32,1]", (32, 10), (32, 1)),
        ("Shapes (None, 1) and (None, 3) are incompatible", (None, 1), (None, 3)),
        (
            'Input 0 of layer "model" is incompatible with the layer: expected shape=(None, 512, 512, 1), '
            "found shape=(None, 512, 512, 3)",
            (None, 512, 512, 1),
            (None, 512, 512, 3),
        ),
        ("Shape mismatch: shapes (32,) and (31,) must be equal", (32,), (31,)),
        ("expected dense_1 to have shape (10,) but got array with shape (1,)", (10,), (1,)),
        ("could not broadcast input array from shape (28,28) into shape (28,28,1)", (28, 28), (28, 28, 1)),
    ],
)
def test_pair_of_shapes(text: str, first: tuple[int | None, ...], second: tuple[int | None, ...]) -> None:
    (pair,) = shapes_in(text, 3)
    assert (pair.first, pair.second, pair.line) == (first, second, 3)


def test_line_without_two_shapes_has_no_pair() -> None:
    assert not list(shapes_in("OOM when allocating tensor with shape[32,10] and type float", 1))


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        ("Unknown image file format. One of JPEG, PNG, GIF, BMP required, got: RIFF\\x00\\x00WEBPVP8", "webp"),
        ("file header: \\xff\\xd8\\xff\\xe0\\x00\\x10JFIF", "jpeg"),
        ("file starts with <!DOCTYPE html>", "html"),
        ("contents: version https://git-lfs.github.com/spec/v1", "git-lfs pointer"),
    ],
)
def test_format_by_first_bytes(text: str, format_: FileFormat) -> None:
    head = file_head_in(text, 1)
    assert head is not None
    assert head.format == format_


def test_formats_that_are_merely_listed_are_no_head() -> None:
    assert file_head_in("Unknown image file format. One of JPEG, PNG, GIF, BMP required.", 1) is None
