"""Findings as lines on the pipe between sampler and parent, at both ends."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.monitor.finding import Finding, FindingChanges, FindingEnded, finding_of, from_documents, to_lines
from oomph.monitor.process import SamplerProcess
from oomph.monitor.sampler import Parent
from oomph.process.child import Child

FINDING = Finding("memory-leak", "GPU 0", "it grows\nby 12 MiB", "critical", {"slope": 12.5, "of": ["a"]}, "Look.")
TEXT = st.text('ab"\\\n\0é\ud800', max_size=8)
FINDINGS = st.builds(
    Finding,
    *[TEXT] * 3,
    severity=st.sampled_from(["notice", "warning", "critical"]),
    evidence=st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT),
    remedy=TEXT,
)
PLAIN = st.none() | st.integers() | TEXT
JSON = PLAIN | st.lists(PLAIN) | st.dictionaries(TEXT, PLAIN)
few = settings(max_examples=30)


ENDS = st.builds(FindingEnded, *[TEXT] * 3, *[st.floats(0, 1e9)] * 2)
CHANGES = st.builds(FindingChanges, *(st.lists(each, max_size=3).map(tuple) for each in (FINDINGS, FINDINGS, ENDS)))


def line_of(finding: Finding) -> str:
    (line,) = to_lines(FindingChanges((finding,)))
    return line


@few
@given(CHANGES)
def test_finding_changes_survive_the_round_trip_through_lines(changes):
    lines = list(to_lines(changes))
    assert all(line.count("\n") == 1 for line in lines)
    assert from_documents(map(json.loads, lines)) == changes


def test_evidence_that_json_cannot_represent_becomes_text():
    finding = Finding("memory-leak", "GPU 0", "", evidence={"path": os.fsencode("a")})
    assert json.loads(line_of(finding))["evidence"] == {"path": "b'a'"}


@few
@given(JSON)
def test_malformed_document_does_not_yield_a_finding_change(document):
    assert from_documents([document, {"ended": document}]) == FindingChanges()
    whole = json.loads(line_of(FINDING))
    for name in whole:
        assert finding_of({**whole, name: 3}) is None
    (line,) = to_lines(FindingChanges(ended=(FindingEnded("hang", "training", "", 1003.0, 3.0),)))
    over = json.loads(line)["ended"]
    for name in over:
        assert from_documents([{"ended": {**over, name: ["x"]}}]) == FindingChanges()


class Ends:
    """Both ends of a pipe."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.parent = Parent(os.getppid(), self.write_fd)

    def said(self) -> list[dict]:
        try:
            return [json.loads(line) for line in os.read(self.read_fd, 1 << 20).splitlines()]
        except BlockingIOError:
            return []


@pytest.fixture(name="ends")
def _ends():
    ends = Ends()
    yield ends
    for fd in (ends.read_fd, ends.write_fd):
        try:
            os.close(fd)
        except OSError:
            pass  # the test closed it


def test_findings_and_problem_changes_reach_the_parent(ends):
    ends.parent.tell_problem("")
    ends.parent.tell(FindingChanges((FINDING,)))
    for problem in ("full", "full", "", "full"):
        ends.parent.tell_problem(problem)
    finding, *problems = ends.said()
    assert finding_of(finding) == FINDING
    assert problems == [{"problem": "full"}, {"problem": ""}, {"problem": "full"}]
    assert not ends.parent.is_gone


def test_slow_parent_does_not_block_the_sampler_and_receives_every_line(ends):
    long = Finding("memory-leak", "GPU 0", "x" * 20_000)
    for _ in range(20):
        ends.parent.tell(FindingChanges((long,)))
    said = b""
    while len(said.splitlines()) < 20 or not said.endswith(b"\n"):
        said += os.read(ends.read_fd, 50_000)
        ends.parent.flush()
    assert [finding_of(json.loads(line)) for line in said.splitlines()] == [long] * 20


def test_unread_parent_messages_take_at_most_a_megabyte(ends):
    for _ in range(500):
        ends.parent.tell(FindingChanges((Finding("memory-leak", "GPU 0", "x" * 20_000),)))
    assert len(ends.parent._unsaid) <= 1 << 20


def test_parent_counts_as_gone_once_it_closes_the_pipe(ends):
    os.close(ends.read_fd)
    ends.parent.tell(FindingChanges((FINDING,)))
    assert ends.parent.is_gone


def test_parent_counts_as_gone_once_its_process_id_changes(ends):
    assert Parent(1 if os.getppid() != 1 else 2, ends.write_fd).is_gone


class Writer(Child):
    """A sampler that writes what the test specifies."""

    def __init__(self) -> None:
        self._output, self._line, self.pending = None, b"", b""

    @property
    def returncode(self) -> int | None:
        return None

    @property
    def is_open(self) -> bool:
        return True

    def read(self, seconds: float = 0.0) -> bytes:
        data, self.pending = self.pending, b""
        return data


class Sampler(SamplerProcess):
    """The parent's end, with a sampler that writes what the test specifies."""

    def __init__(self) -> None:
        self.problem, self._last, self._closed, self._process = "", [], False, Writer()

    @property
    def pending(self) -> bytes:
        return self._process.pending

    @pending.setter
    def pending(self, data: bytes) -> None:
        self._process.pending = data


def test_partial_line_is_kept_until_it_is_complete():
    sampler, line = Sampler(), line_of(FINDING).encode()
    sampler.pending = line[:30]
    assert sampler.changes().told == ()
    sampler.pending = line[30:] + line
    assert sampler.changes().told == (FINDING, FINDING)
    assert sampler.changes().told == ()


def test_sampler_keeps_reported_problems_and_ignores_invalid_lines():
    sampler = Sampler()
    sampler.pending = b'{"problem": "disk full"}\nTraceback\n[[[\n' + b"[" * 100_000 + b"\n" + line_of(FINDING).encode()
    assert sampler.changes().told == (FINDING,)
    assert sampler.problem == "disk full"
    sampler.pending = b'{"problem": ""}\n{"problem": 3}\n\xff\n'
    assert sampler.changes().told == ()
    assert sampler.problem == ""


def test_endless_line_is_kept_only_up_to_a_megabyte():
    sampler = Sampler()
    for _ in range(30):
        sampler.pending = b"x" * 100_000
        sampler.changes()
    assert len(sampler._process._line) <= 1 << 20
