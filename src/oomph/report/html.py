"""The report as one self-contained HTML page. Pure, except that it reads its own style, script and uPlot.

All texts come from files that may be from elsewhere: each is redacted and escaped where it enters the page.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby, islice, starmap
from operator import itemgetter

from oomph.explain.catalogue.catalogue import find
from oomph.explain.catalogue.fault import Fault
from oomph.explain.markdown import plain
from oomph.page.axis import in_local_time
from oomph.page.document import SAME_ORIGIN, document, safe, table
from oomph.report import charts, lanes, timeline
from oomph.report.charts import Chart, TimeLine
from oomph.report.environment import environment_of
from oomph.report.incidents import ReportedIncident, reported
from oomph.report.profiles import COMPILED, ON_A_LINE_OF_TIME, OPERATION_HEADS, Profiles, operations_of, rows_of
from oomph.report.recording import Recording, account_of, micro_batches_of, why_no_charts
from oomph.run.report.found import Found
from oomph.run.report.labels import EXACT, VERIFIED
from oomph.run.report.larger_batch import larger_batch_in_words
from oomph.run.report.story import SavingKind
from oomph.run.report.summary import is_finite, result_in_words
from oomph.terminal.amounts import as_duration, counted
from oomph.terminal.wrapping import shortened

_CLOCK, _DATE = "%H:%M:%S", "%Y-%m-%d %H:%M:%S %z"
_LONGEST_TITLE = 300
"""The most characters of the script and its arguments in the heading."""
_MOST_IN_HEAD = 5
"""The most incidents, and the most findings, to name in the head."""
_MOST_FAULTS = 200
"""The most incidents to tell one by one."""


def as_page(recording: Recording, serves: bool = False) -> str:
    """Return the report of a run.

    Args:
        serves: True if a server renews the page while the run is going on.
    """
    line, drawn = timeline.timeline_of(recording), charts.charts_of(recording.curves)
    parts = sections(recording, line, drawn)
    body = [f'<main id="report">{"".join(_section(name, content) for name, content in parts.items())}</main>']
    scripts = [vendored("uPlot.iife.min.js"), own("page.js")] if drawn else []
    if drawn:
        body.append(f'<script type="application/json" id="data">{_as_json(recording, line, drawn)}</script>')
    style = vendored("uPlot.min.css") + own("page.css")
    return document(_title(recording), body, style, scripts, SAME_ORIGIN if serves else "")


def sections(recording: Recording, line: TimeLine, drawn: Sequence[Chart]) -> dict[str, str]:
    """Return the sections of the page by their names, in order. An empty section is left out."""
    told, found = reported(recording), recording.story.findings
    pages = [*(each.page for each in told), *(find(each.fault) for each in found)]
    parts = {
        "attempts": "".join(_attempts(recording)),
        "time": "".join(_over_time(recording, line, drawn)),
        "workers": "".join(_workers(recording, line, drawn)),
        "charts": "".join(figures(drawn, recording.curves.times, line)),
        "profile": "".join(_profile(recording.profiles)),
        "incidents": "".join(_incidents(told)),
        "findings": "".join(_findings(found)),
        "environment": "".join(_environment(recording)),
        "faults": "".join(fault_pages(pages)),
    }
    parts = {name: content for name, content in parts.items() if content}
    titles = _CONTENTS | {"incidents": f"Incidents ({len(told)})", "findings": f"Findings ({len(found)})"}
    links = [f'<a href="#{name}">{titles[name]}</a>' for name in parts if name in titles]
    head = f'<nav aria-label="Contents"><span>oomph report</span>{"".join(links)}</nav>\n'
    return {"head": head + "".join(_headline(recording, told)), **parts}


_CONTENTS = {
    "attempts": "Attempts",
    "time": "Over time",
    "workers": "Workers",
    "profile": "Profile",
    "incidents": "",
    "findings": "",
    "environment": "Environment",
    "faults": "About the faults",
}
"""The names of the sections that the head leads to, in short."""


def _section(name: str, content: str) -> str:
    named = 'aria-label="Charts"' if name == "charts" else f'aria-labelledby="{name}-title"'
    return f'<section id="{name}" {named}>{content}</section>\n'


def _heading(name: str, text: str) -> str:
    return f'<h2 id="{name}-title">{escape(text)}</h2>\n'


def _title(recording: Recording) -> str:
    return f"{shortened(recording.title, _LONGEST_TITLE)}: {recording.outcome}"


def _as_json(recording: Recording, line: TimeLine, drawn: Sequence[Chart]) -> str:
    """Return the data of the charts, in which no text can end the script element."""
    return as_inline_json(page_data(recording, line, drawn))


def page_data(recording: Recording, line: TimeLine, drawn: Sequence[Chart]) -> dict[str, object]:
    """Return what the page's script needs: the charts, the clock of this machine, and whether news are to come."""
    offset = time.localtime(recording.begin).tm_gmtoff
    return {**charts.as_data(drawn, recording.curves.times, line), "offset": offset, "going_on": recording.is_going_on}


def as_inline_json(data: object) -> str:
    """Return JSON that may stand inside a script element, with every text redacted."""
    from oomph.redaction.redaction import redacted_data

    text = json.dumps(redacted_data(data), separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# -- the sections -----------------------------------------------------------------------------------------------------


def _headline(recording: Recording, told: Sequence[ReportedIncident]) -> Iterator[str]:
    story, summary = recording.story, recording.summary
    tone = "bad" if story.failed else "warn" if story.incidents or story.gap else "good"
    tone = tone if recording.record is not None or recording.attempts or story.gap else "soft"
    yield f'<h1 id="head-title"><code>{safe(shortened(recording.title, _LONGEST_TITLE))}</code></h1>\n'
    yield f'<p class="outcome {tone}">{safe(recording.outcome)}</p>\n'
    result = result_in_words(summary)
    if result:
        sure = "good" if summary.exactness in (EXACT, VERIFIED) else "warn"
        yield f'<p class="{sure if is_finite(summary) else "bad"}">{safe(result)}</p>\n'
    yield from (f'<p class="warn">{safe(_as_sentence(text))}.</p>\n' for text in recording.missing)
    rows = [
        *((head, [safe(text)]) for head, text in account_of(recording)),
        ("incidents", [", ".join(each)] if (each := _first(map(_incident_link, told), len(told))) else []),
        ("what was found", _first(starmap(_told_in_head, enumerate(story.findings, 1)), len(story.findings))),
        ("when", [safe(_when(recording))]),
        ("next time", [*_next_time(recording)]),
    ]
    yield '<dl class="account">' + "".join(_row(head, texts) for head, texts in rows if texts) + "</dl>\n"


def _row(head: str, texts: Iterable[str]) -> str:
    """Return a heading and its texts, which are HTML."""
    return f"<dt>{safe(head)}</dt>" + "".join(f"<dd>{text}</dd>" for text in texts)


def _first(texts: Iterable[str], count: int) -> list[str]:
    """Return the first of `count` texts, and how many more there are."""
    more = [f"… and {count - _MOST_IN_HEAD:,} more"] if count > _MOST_IN_HEAD else []
    return [*islice(texts, _MOST_IN_HEAD), *more]


def _incident_link(each: ReportedIncident) -> str:
    return f'<a href="#incident-{each.number}">{each.number}. {safe(each.fault)}</a>'


def _told_in_head(number: int, found: Found) -> str:
    tone = _TONES.get(found.severity, "warn")
    about = f"{found.subject}: {found.message}"
    return f'<a class="{tone}" href="#finding-{number}">{safe(found.fault)}</a>, {safe(about)}'


def _next_time(recording: Recording) -> Iterator[str]:
    """Yield what can be done better, as HTML."""
    story, summary = recording.story, recording.summary
    if story.improvement:
        yield safe(story.improvement)
    for each in story.savings:
        yield f"{safe(_SAVING[each.kind].format(time=as_duration(each.seconds)))}: {_command(each.command)}"
    if summary.larger_batch is not None and summary.exit_code == 0:
        yield f"On this device, {safe(larger_batch_in_words(summary.larger_batch))}."


def _command(text: str) -> str:
    """Return a command whose lines end between two arguments, and not at a hyphen."""
    return f"<code>{' '.join(f'<span>{word}</span>' for word in safe(text).split(' '))}</code>"


_SAVING: Mapping[SavingKind, str] = {
    "micro-batch": "The next run can start with the micro-batch that this one took {time} to find",
    "checkpoints": "Repeated steps took {time}. Checkpoints at shorter intervals, which also cost time, would have"
    " saved a part of that",
}


def _when(recording: Recording) -> str:
    begin, end = (in_local_time(at, _DATE) for at in (recording.begin, recording.end))
    until = f"so far ({end})" if recording.is_going_on else end
    changed = "; the clock was changed meanwhile" * recording.is_clock_changed
    return f"{begin} to {until}, {duration_of(recording)}{changed}"


def duration_of(recording: Recording) -> str:
    """Return how long a run took, as text."""
    return "unknown time" if recording.seconds is None else as_duration(recording.seconds)


def _attempts(recording: Recording) -> Iterator[str]:
    if not recording.attempts:
        return
    yield _heading("attempts", "Attempts")
    rows = (
        (
            str(attempt.number),
            _at(attempt.begin),
            timeline.in_words(attempt, recording),
        )
        for attempt in recording.attempts
    )
    yield table(("attempt", "began", "what became of it"), rows)
    sizes = [f"{size:,} from {_at(at)} on" for at, size in micro_batches_of(recording)]
    if sizes:
        yield f"<p>Micro-batches of {safe(', then '.join(sizes))}.</p>\n"


def _at(moment: float) -> str:
    return in_local_time(moment, _CLOCK)


def _over_time(recording: Recording, line: TimeLine, drawn: Sequence[Chart]) -> Iterator[str]:
    """Yield what all charts share: how they are made, how they are used, and above them the attempts as bars."""
    yield _heading("time", "Over time")
    told = f"{safe(_how_drawn(recording))} {HOW_TO_ZOOM}" if drawn else safe(why_no_charts(recording))
    yield f'<p class="soft">{told}</p>\n'
    if recording.attempts:
        yield timeline.keys_of(recording, line)
        yield timeline.as_bars(recording, line, charts.margins_of(drawn, line))


def _workers(recording: Recording, line: TimeLine, drawn: Sequence[Chart]) -> Iterator[str]:
    """Yield a lane for each worker, if there are several."""
    content = "".join(lanes.as_section(recording, line, charts.margins_of(drawn, line)))
    if content:
        yield _heading("workers", "Workers") + content


def _how_drawn(recording: Recording) -> str:
    curves = recording.curves
    note = f"{counted(curves.samples, 'sample')}, one a second"
    if curves.is_thinned:
        note += f"; of every {as_duration(curves.interval)} the smallest and the largest value are shown"
    if curves.went_back:
        note += "; the clock was turned back during the run, so that parts of the curves overlap"
    return f"{note}. Times are those of this machine ({in_local_time(recording.begin, '%Z')})."


HOW_TO_ZOOM = (
    '<span class="live">Drag in a chart to zoom, double-click to see everything; keys: ← and → move the cursor,'
    ' + and − zoom, 0 shows everything. <button type="button" id="whole" hidden>Show everything</button></span>'
)


def figures(drawn: Sequence[Chart], times: Sequence[float], line: TimeLine) -> Iterator[str]:
    """Yield each chart: interactive with scripts, a picture without, and its figures in a table."""
    margins = charts.margins_of(drawn, line)
    for chart in drawn:
        note = f'<p class="soft">{escape(chart.note)}</p>' if chart.note else ""
        yield (
            f'<figure id="chart-{chart.key}"><figcaption><h3>{escape(chart.title)}</h3>{note}</figcaption>'
            f'<div class="live plot" data-chart="{chart.key}"></div>'
            f'<div class="still">{charts.as_picture(chart, times, line, margins)}{_legend(chart)}</div>'
            f"<details><summary>Figures</summary>{_figures(chart)}</details></figure>\n"
        )


def _legend(chart: Chart) -> str:
    keys = (
        f'<li><span class="key {"limit-key" if curve.is_limit else f"k{number % 8}"}"></span>{safe(curve.name)}</li>'
        for number, curve in enumerate(chart.curves)
    )
    return f'<ul class="legend">{"".join(keys)}</ul>'


def _figures(chart: Chart) -> str:
    return table(("", "smallest", "mean", "largest", "last"), charts.as_rows(chart))


def _profile(profiles: Profiles) -> Iterator[str]:
    if not profiles.taken and not profiles.missing:
        return
    yield _heading("profile", "Profile")
    for each in profiles.taken:
        yield f"<h3>{safe(each.title[:1].upper() + each.title[1:])}</h3>\n"
        yield (
            "<dl>"
            + "".join(f"<dt>{escape(head)}</dt><dd>{safe(text)}</dd>" for head, text in rows_of(each))
            + "</dl>\n"
        )
        if each.figures is not None:
            yield table(OPERATION_HEADS, operations_of(each.figures))
            yield f'<p class="soft">{COMPILED}</p>\n' if each.figures.compiled else ""
    yield from (f"<p>{safe(_as_sentence(text))}.</p>\n" for text in profiles.missing)
    if profiles.opens:
        yield f"<p>{ON_A_LINE_OF_TIME}: <code>{safe(profiles.opens)}</code></p>\n"


def _as_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _incidents(told: Sequence[ReportedIncident]) -> Iterator[str]:
    if not told:
        return
    yield _heading("incidents", "Incidents")
    first: dict[tuple[str, tuple[str, ...]], int] = {}
    for each in told[:_MOST_FAULTS]:
        heading = f"<h3>{each.number}. {fault_link(each.fault, each.page)}</h3>"
        yield f'<article id="incident-{each.number}" tabindex="-1">{heading}<dl>'
        for head, group in groupby(each.rows(), key=itemgetter(0)):
            yield f"<dt>{escape(head)}</dt>" + "".join(f"<dd>{safe(text)}</dd>" for _, text in group)
        yield "</dl>"
        yield _remedies(each, first.setdefault((each.fault, each.remedies), each.number))
        yield "</article>\n"
    if len(told) > _MOST_FAULTS:
        more = f"… and {len(told) - _MOST_FAULTS} more"
        yield f"<p>{more}: <code>oomph report --format json</code> lists all of them.</p>\n"


def fault_link(name: str, page: Fault | None) -> str:
    """Return the name of a fault, with a link to its page if it has one."""
    if page is None:
        return safe(name)
    code = escape(page.code)
    return f'<a href="#fault-{code}">{safe(name)} ({code})</a>'


def _remedies(each: ReportedIncident, first: int) -> str:
    """Return what to do, or a link to the first incident of the same fault, which says it."""
    if not each.remedies:
        return ""
    if first != each.number:
        return f'<p>What you can do: as for <a href="#incident-{first}">incident {first}</a>.</p>'
    items = "".join(f"<li>{safe(text)}</li>" for text in each.remedies)
    return f"<p>What you can do:</p><ol>{items}</ol>"


def _findings(findings: Sequence[Found]) -> Iterator[str]:
    if not findings:
        return
    yield _heading("findings", "Found by the monitor")
    for number, found in enumerate(findings, 1):
        until = "until the end of the run" if found.end is None else f"until {_at(found.end)}"
        tone, named = _TONES.get(found.severity, "warn"), fault_link(found.fault, find(found.fault))
        yield f'<article id="finding-{number}" tabindex="-1"><h3 class="{tone}">{named}, {safe(found.severity)}</h3>'
        yield f"<p>{safe(found.message)}</p>"
        yield f"<p>{safe(found.remedy)}</p>" if found.remedy else ""
        yield f'<p class="soft">{safe(found.subject)}, from {_at(found.begin)} {until}</p></article>\n'


_TONES = {"notice": "soft", "warning": "warn", "critical": "bad"}


def _environment(recording: Recording) -> Iterator[str]:
    yield _heading("environment", "Environment")
    yield table((), environment_of(recording))


def fault_pages(faults: Iterable[Fault | None]) -> Iterator[str]:
    """Yield the page of each of these faults once."""
    pages = {each.code: each for each in faults if each is not None}
    if not pages:
        return
    yield _heading("faults", "About the faults")
    for code, page in pages.items():
        title = f"{page.title} ({page.name}, {code})"
        yield f'<details id="fault-{escape(code)}"><summary>{escape(title)}</summary>'
        yield f"<p>{escape(page.summary)}</p>"
        for heading, prose in page.sections.items():
            yield f"<h3>{escape(heading)}</h3><pre>{escape(chr(10).join(plain(prose, 96)))}</pre>"
        yield "</details>\n"


# -- the page's own style and scripts ---------------------------------------------------------------------------------


@cache
def own(name: str) -> str:
    """Return the page's own style or script."""
    return files("oomph.report").joinpath(name).read_text(encoding="utf-8")


@cache
def vendored(name: str) -> str:
    """Return a file of uPlot."""
    return files("oomph.report").joinpath("vendor").joinpath(name).read_text(encoding="utf-8")
