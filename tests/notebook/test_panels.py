"""Results and stories in a notebook: one short line as repr, at most a screen otherwise, all text escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import oomph
from oomph.explain.evidence.evidence import Evidence
from oomph.notebook.display.fit_story import FitStory
from oomph.planning.plan import Device, Estimate, Fitting, Interval, Plan
from oomph.preflight.document import Checked, ReportedFinding
from oomph.run.report.found import Found
from oomph.run.report.story import Incident, Story
from oomph.run.report.summary import summarise
from oomph.terminal.panel import SCREEN_LINES, cut, safe, screenful

SECRET = "hunter2hunter2"
HOSTILE = f'<script>alert(1)</script>\x1b[31m & "quoted" API_KEY={SECRET} \u202e ' + "long " * 300


def _diagnoses() -> tuple[oomph.Diagnosis, ...]:
    log = [f"ResourceExhaustedError: OOM when allocating tensor with shape[64,3,{n}] {HOSTILE}" for n in range(20)]
    return oomph.diagnose([Evidence("log", line, number) for number, line in enumerate(log)])


def _checked(count: int) -> Checked:
    finding = ReportedFinding("CHK101", "a-name", "error", HOSTILE, (HOSTILE, "a remedy"), HOSTILE, HOSTILE, HOSTILE)
    return Checked(HOSTILE, (finding,) * count, HOSTILE)


def _plan(count: int) -> Plan:
    size = Interval(1 << 30, 2 << 30, 3 << 30)
    estimates = tuple(Estimate(batch, size, Fitting.NO) for batch in range(1, count + 1))
    return Plan(
        "graph", "", HOSTILE, HOSTILE, 1, estimates, (), Device(HOSTILE, 4 << 30, 4 << 30), 0, None, (), (), "", (), (),
        (), warnings=(HOSTILE,) * 9,
    )  # fmt: skip


def _story(count: int) -> Story:
    incident = Incident("device-oom", 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    found = Found("hang", "HNG101", "train.py", "hang", HOSTILE, HOSTILE, "error", 1, 0.0, 0.0)
    return Story(HOSTILE, True, HOSTILE, (incident,) * count, (), (found,) * count)


def _fit_story(count: int) -> FitStory:
    story = FitStory()
    for _ in range(count):
        story = story.with_report(HOSTILE)
    return story


RESULTS = {
    "diagnoses": _diagnoses(),
    "diagnosis": _diagnoses()[0],
    "no diagnosis": oomph.diagnose([]),
    "checked": _checked(100),
    "nothing found": Checked("train.py:1", ()),
    "plan": _plan(100),
    "summary": summarise([], 1),
    "story": _story(100),
}
PANELS = {name: result._repr_html_() for name, result in RESULTS.items()} | {"fit": _fit_story(1000).as_html()}


class _Balanced(HTMLParser):
    """Checks that all tags are closed in order, and collects attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _parsed(html: str) -> _Balanced:
    parsed = _Balanced()
    parsed.feed(html)
    parsed.close()
    assert parsed.open == []
    return parsed


@pytest.mark.parametrize("name", PANELS)
def test_panel_escapes_everything_and_loads_nothing(name: str) -> None:
    parsed = _parsed(PANELS[name])
    assert parsed.seen <= {"div", "b", "code", "ul", "ol", "li", "table", "tr", "th", "td"}
    assert {attribute for attribute, _ in parsed.attributes} <= {"class", "style"}
    assert not any("url(" in str(value) for _, value in parsed.attributes)
    assert SECRET not in PANELS[name]
    assert not set("\x1b\u202e") & set(PANELS[name])


@pytest.mark.parametrize("name", sorted(PANELS.keys() - {"no diagnosis"}))
def test_panel_inherits_its_colours_to_suit_light_and_dark_themes(name: str) -> None:
    styles = [value or "" for attribute, value in _parsed(PANELS[name]).attributes if attribute == "style"]
    assert not any("background" in style or re.search(r"(?<![-\w])color:", style) for style in styles)
    borders = [style for style in styles if "border" in style]
    assert borders
    assert all("var(--jp-" in style for style in borders)


@pytest.mark.parametrize("name", PANELS)
def test_panel_fills_at_most_a_screen(name: str) -> None:
    assert len(re.findall("<div|<li|<tr", PANELS[name])) <= SCREEN_LINES
    assert len(PANELS[name]) < 40_000


@pytest.mark.parametrize("name", RESULTS)
def test_repr_is_one_short_line_and_str_at_most_a_screen(name: str) -> None:
    short, text = repr(RESULTS[name]), str(RESULTS[name])
    assert "\n" not in short
    assert len(short) < 300
    assert len(text.split("\n")) <= SCREEN_LINES
    for shown in (short, text):
        assert SECRET not in shown
        assert "\x1b" not in shown


def test_results_state_their_main_facts() -> None:
    assert repr(_checked(2)).endswith("2 errors)")
    assert str(Checked("train.py:1", (), "640 samples")) == "train.py:1: nothing found; examined 640 samples"
    assert "nothing found" in PANELS["nothing found"]
    assert "OOM when allocating" in PANELS["diagnosis"]
    assert "device-oom (OOM101)" in PANELS["diagnosis"]
    assert "No batch is certain to fit" in PANELS["plan"]
    assert "max_batch=0" in repr(RESULTS["plan"])


def test_long_list_says_how_much_it_leaves_out() -> None:
    assert cut([1, 2, 3], 3) == ([1, 2, 3], 0)
    assert cut([1, 2, 3, 4], 3) == ([1, 2], 2)
    assert screenful(str(number) for number in range(100)).endswith("\n38\n... and 61 more lines")
    assert len(safe("x" * 10_000)) <= 600


def test_long_story_keeps_its_beginning_and_its_end() -> None:
    story = FitStory()
    for number in range(30):
        story = story.with_report(f"report {number}")
    lines = story.as_text().split("\n")
    assert lines[4:7] == ["oomph: report 4", "oomph: ... 5 more ...", "oomph: report 10"]
    assert lines[-1] == "oomph: report 29"
    assert len(lines) == 26


def test_report_in_a_story_stays_on_one_line() -> None:
    assert FitStory().with_report("one\noomph: two").as_text() == "oomph: one\\x0aoomph: two"
