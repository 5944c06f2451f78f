"""Findings as lines on the pipe between sampler and parent, at both ends."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.monitor.finding import Finding
from oomph.monitor.finding_line import from_document, to_line
from oomph.monitor.parent import Parent
from oomph.monitor.process import SamplerProcess

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


@few
@given(FINDINGS)
def test_a_finding_comes_back_from_its_line(finding):
    line = to_line(finding)
    assert line.count("\n") == 1
    assert from_document(json.loads(line)) == finding


def test_what_json_cannot_hold_becomes_text():
    finding = Finding("memory-leak", "GPU 0", "", evidence={"path": os.fsencode("a")})
    assert json.loads(to_line(finding))["evidence"] == {"path": "b'a'"}


@few
@given(JSON)
def test_another_document_is_no_finding(document):
    assert from_document(document) is None
    whole = json.loads(to_line(FINDING))
    for name in whole:
        assert from_document({**whole, name: 3}) is None


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


def test_findings_and_changes_of_the_problem_are_told(ends):
    ends.parent.tell_problem("")
    ends.parent.tell(FINDING)
    for problem in ("full", "full", "", "full"):
        ends.parent.tell_problem(problem)
    finding, *problems = ends.said()
    assert from_document(finding) == FINDING
    assert problems == [{"problem": "full"}, {"problem": ""}, {"problem": "full"}]
    assert not ends.parent.is_gone


def test_a_parent_that_does_not_read_is_not_waited_for_and_misses_no_line(ends):
    long = Finding("memory-leak", "GPU 0", "x" * 20_000)
    for _ in range(20):
        ends.parent.tell(long)
    said = b""
    while len(said.splitlines()) < 20 or not said.endswith(b"\n"):
        said += os.read(ends.read_fd, 50_000)
        ends.parent.flush()
    assert [from_document(json.loads(line)) for line in said.splitlines()] == [long] * 20


def test_a_parent_that_never_reads_costs_a_megabyte_at_most(ends):
    for _ in range(500):
        ends.parent.tell(Finding("memory-leak", "GPU 0", "x" * 20_000))
    assert len(ends.parent._unsaid) <= 1 << 20


def test_a_parent_that_has_closed_the_pipe_is_gone(ends):
    os.close(ends.read_fd)
    ends.parent.tell(FINDING)
    assert ends.parent.is_gone


def test_another_parent_means_that_ours_has_ended(ends):
    assert Parent(1 if os.getppid() != 1 else 2, ends.write_fd).is_gone


class Sampler(SamplerProcess):
    """The parent's end, with a pipe that the test writes to."""

    def __init__(self) -> None:
        self.problem, self._said, self._process = "", b"", None
        self.pending = b""

    def _read(self) -> bytes:
        data, self.pending = self.pending, b""
        return data


def test_half_a_line_waits_for_its_end():
    sampler, line = Sampler(), to_line(FINDING).encode()
    sampler.pending = line[:30]
    assert sampler.findings() == []
    sampler.pending = line[30:] + line
    assert sampler.findings() == [FINDING, FINDING]
    assert sampler.findings() == []


def test_problems_are_kept_and_nonsense_is_passed_over():
    sampler = Sampler()
    sampler.pending = b'{"problem": "disk full"}\nTraceback\n[[[\n' + b"[" * 100_000 + b"\n" + to_line(FINDING).encode()
    assert sampler.findings() == [FINDING]
    assert sampler.problem == "disk full"
    sampler.pending = b'{"problem": ""}\n{"problem": 3}\n\xff\n'
    assert sampler.findings() == []
    assert sampler.problem == ""


def test_a_line_without_end_is_not_kept():
    sampler = Sampler()
    for _ in range(30):
        sampler.pending = b"x" * 100_000
        sampler.findings()
    assert len(sampler._said) <= 1 << 20
