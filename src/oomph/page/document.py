"""The frame of a page: its head, the style that all pages share, and tables. Pure.

The policy in the head (Content-Security-Policy) lets a page load nothing: even if a string got past the escaping, it
could neither call another machine nor load anything from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from oomph.terminal.message import shown

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a19; --soft: #5f5e58; --page: #fcfcfb; --card: #f3f2ee; --grid: #e3e2dc;
  --s0: #2470cc; --s1: #b4580a; --s2: #2b8344; --s3: #8a3fb8; --s4: #0b7f8a; --s5: #b03a6f; --s6: #6b6f00;
  --s7: #5a6772; --bad: #b3261e; --warn: #8f5a00; --good: #1e7a3c; --link: #1a62b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #f2f1ec; --soft: #b3b1a7; --page: #1a1a19; --card: #262624;
  --grid: #3a3935; --s0: #6aa9f4; --s1: #f0a35e; --s2: #6cc784; --s3: #cf9bf0; --s4: #5cc8d2; --s5: #f08fb8;
  --s6: #c9cd55; --s7: #a9b6c2; --bad: #ff8a80; --warn: #f0b357; --good: #6cc784; --link: #8ab8f5; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --page: #fff; --card: #fff; --grid: #ccc; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .5rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--link); } :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 12px; fill: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1.5rem .2rem 0; overflow-wrap: normal; }
th { color: var(--soft); font-weight: normal; } thead th { border-bottom: 1px solid var(--grid); }
pre { white-space: pre-wrap; background: var(--card); padding: .7rem; margin: .4rem 0; }
code { font-family: ui-monospace, monospace; font-size: .93em; }
.soft { color: var(--soft); } .good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.grid { stroke: var(--grid); } .band { fill: var(--s0); opacity: .18; } .spot { fill: var(--s0); }
.line { fill: none; stroke-width: 1.7; stroke-linejoin: round; stroke-linecap: round; }
.moment { fill: transparent; } .peak { fill: var(--bad); } svg .of-peak { fill: var(--bad); font-weight: 600; }
.limit { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 6 4; } svg .of-limit { fill: var(--bad); }
.mark { stroke: var(--bad); stroke-width: 1.5; } .mark.restart { stroke: var(--soft); stroke-dasharray: 3 3; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); }
.s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); } .s6 { stroke: var(--s6); } .s7 { stroke: var(--s7); }
.span { fill: var(--warn); opacity: .16; } .span.critical { fill: var(--bad); } .span.notice { fill: var(--soft); }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SAME_ORIGIN = "; connect-src 'self'"
"""Added to the policy of a page that asks the server it came from for news."""


def safe(text: str) -> str:
    """Redact a text from any source, make its control characters visible, and escape it."""
    return escape(shown(text))


def document(title: str, body: Iterable[str], style: str = "", scripts: Sequence[str] = (), policy: str = "") -> str:
    """Return a whole page.

    Args:
        title: the title of the window, which is cleaned here.
        body: the parts of the body, as HTML.
        style: rules beyond those that all pages share.
        scripts: the scripts to run at its end.
        policy: what the page may do beyond showing itself.
    """
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}{policy}">'
        f'<meta name="referrer" content="no-referrer"><title>{safe(title)}</title>'
    )
    run = "".join(f"\n<script>{script}</script>" for script in scripts)
    shown = "\n".join(body)
    start = f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{STYLE}{style}</style></head>'
    return f"{start}\n<body>\n{shown}{run}\n</body>\n</html>\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table of texts, which are cleaned here."""
    heads = "".join(f'<th scope="col">{safe(each)}</th>' if each else "<td></td>" for each in head)
    lines = ("".join(f"<td>{safe(cell)}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    titled = f"<caption>{safe(caption)}</caption>" if caption else ""
    first = f"<thead><tr>{heads}</tr></thead>\n" if head else ""
    return f'<div class="wide" tabindex="0"><table>{titled}\n{first}<tbody>{body}</tbody>\n</table></div>'
