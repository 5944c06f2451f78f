"""Finds the code in the documents."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from oomph.api import docs

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<language>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)
_INLINE = re.compile(r"`(oomph [a-z][^`]*)`")
_ENDS_COMMAND = {"|", "||", "&&", ";", ">", ">>", "2>&1", "&"}


class Block(NamedTuple):
    """A fenced block of a document."""

    document: Path
    number: int
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.document.stem}-{self.number}"


def documents() -> list[Path]:
    """Return the documents that people write, and not those that `make docs` writes."""
    ignored = [ROOT / line[1:] for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/docs/")]
    written = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in written if not any(path == built or built in path.parents for built in ignored))


def blocks(*languages: str) -> list[Block]:
    """Return the fenced blocks in these languages, or all of them, and the examples in docstrings of public names."""
    fenced = [
        Block(document, number, fence["language"], fence["text"])
        for document in documents()
        for number, fence in enumerate(_FENCE.finditer(document.read_text()), 1)
    ]
    return [block for block in [*fenced, *_examples()] if not languages or block.language in languages]


def _examples() -> Iterator[Block]:
    """Yield the examples in docstrings, which come before the first section about arguments or results."""
    entries = re.split(r"^##.*$", docs.document(), flags=re.MULTILINE)
    texts = [entry.partition("\n**")[0] for entry in entries]
    examples = [match[0] for text in texts for match in re.finditer(r"(?<=\n\n)(?:    .*\n|\n(?=    ))+", text)]
    for number, example in enumerate(examples, 1):
        yield Block(ROOT / "docs/reference/python.md", number, "python", textwrap.dedent(example))


def lines_of(block: Block) -> list[str]:
    """Return the commands of a block, without its comments."""
    return [line.strip() for line in block.text.splitlines() if line.strip() and not line.startswith("#")]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the words after `oomph` of each command, in blocks and in sentences, with the name of its document."""
    for block in blocks("sh", "yaml"):
        for line in lines_of(block):
            yield from ((block.document.name, words) for words in _after_oomph(line.removeprefix("- run: ")))
    for document in documents():
        for inline in _INLINE.findall(_FENCE.sub("", document.read_text())):
            yield from ((document.name, words) for words in _after_oomph(inline))


def _after_oomph(line: str) -> Iterator[list[str]]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # the beginning of a line that an article shortens
        return
    if "oomph" not in words or any("…" in word or "..." in word for word in words):
        return
    after = words[words.index("oomph") + 1 :]
    end = next((place for place, word in enumerate(after) if word in _ENDS_COMMAND), len(after))
    yield after[:end]
