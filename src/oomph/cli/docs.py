"""Generates the reference of the command line and of the configuration.

`python -m oomph.cli.docs docs/reference/command-line.md docs/reference/configuration.md` writes both pages.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from oomph.cli import COMMANDS
from oomph.cli.parser import VerbParser, parser_of
from oomph.cli.presets import FILE, PRESETS, TABLE, Preset

_FORMS = """
## A script

`run`, `check`, `plan` and `rehearse` take it in the same forms:

| form | what runs |
| --- | --- |
| `SCRIPT.py` | a script, or a folder or an archive with a `__main__.py` |
| `NOTEBOOK.ipynb` | the cells of a notebook |
| `-m MODULE` | a module, as with `python -m` |
| `-- COMMAND` | any command that ends in Python, such as `-- env A=1 python train.py` |

oomph's options come before it. Everything after it belongs to the script. If an option of the script comes too \
early, oomph looks for it in the text of the script, which it neither imports nor runs, and says where it belongs.

## A run

`explain`, `report`, `watch`, `runs` and `run --resume=` take it in the same forms:

| form | which run |
| --- | --- |
| `out/baseline` | the run directory |
| `20261130-031852-train` | the run with that name in this folder's `.oomph` or in that of `--runs-dir`, unless there \
is a file or folder with that name |
| `out/baseline/run.json` | the run of that file; likewise `summary.json`, `report.html` and `journal` |
| nothing | the newest run here; `explain` prefers what is piped to it, `watch` the runs in progress, `run --resume` \
takes the newest unfinished run of the same script, and `runs prune` needs a rule or a name |
"""
_SET_ONCE = f"""# Configuration

What you always want need not be typed each time. The command line has precedence over the environment, and the \
environment over the file. oomph says in one line what it has found.

```toml
{TABLE}
checkpoint-every = "5m"
runs-dir = "/scratch/me"
report = true
```

The file is the nearest `{FILE}` with such a table, from the folder of the script upwards, or from the working \
directory for `-m`, for a command without a script's file, and for verbs that look for runs. In the environment, a \
switch is `1` or `0`, and an empty variable counts as unset: `OOMPH_REPORT=0 oomph run train.py` writes no report this \
time. An unknown key or a wrong value ends the command with 2.

With `runs-dir`, `oomph run` keeps its `.oomph` in that folder instead of the working directory, and creates it if it \
is missing; in a file, the folder is relative to the file. `explain`, `report`, `watch`, `runs` and `run --resume` \
look there as well as here. Notebooks and `oomph.Monitor` write where they always do.

The file may come from somebody else. It can therefore neither name a program nor an address, nor alter the \
mathematics beyond `inexact`, and it is ignored if it belongs to another user, unless the script does, too.
"""
_AFTER_PRESETS = """
With `--no-guard`, what needs the guard is left out. Runs that `oomph rehearse` starts send no notifications, write \
no report, and neither plan nor check.

[`OOMPH_XLA_PYTHON`](../how-to/plan.md) names the Python that has JAX. The other variables that begin with `OOMPH_` \
are how oomph's processes reach one another: leave them alone.
"""
_SETUP = """
## Set once

What you always want can be [set in the environment or in a file](configuration.md).

## Completion

```sh
eval "$(oomph completion bash)"       # in ~/.bashrc
eval "$(oomph completion zsh)"        # in ~/.zshrc, after compinit
oomph completion fish > ~/.config/fish/completions/oomph.fish
```

completes verbs, options and their values, scripts and notebooks, and the names of runs. The script holds all of it, \
so completing starts no Python; print it again after an upgrade.
"""


def command_line() -> str:
    """Return the text of the reference of the command line, generated from the parsers."""
    return "\n".join(_command_line())


def configuration() -> str:
    """Return the text of the reference of the configuration, generated from the table of presets."""
    rows = ["| option | variable | key in the file | verbs |", "| --- | --- | --- | --- |"]
    return "\n".join([_SET_ONCE, *rows, *map(_row_of_preset, PRESETS), _AFTER_PRESETS])


def _command_line() -> Iterator[str]:
    yield "# The command line\n"
    yield "Generated from the parsers by `python -m oomph.cli.docs`. `oomph VERB --help` shows the same, with \
examples."
    yield "Every verb also has `--help` and `--color auto|always|never`."
    yield _FORMS.rstrip()
    yield _SETUP.rstrip()
    for verb, (module, summary) in COMMANDS.items():
        yield f"\n## oomph {verb}\n"
        yield f"{summary[0].upper()}{summary[1:]}.\n"
        yield from _of_verb(parser_of(verb, importlib.import_module(module)))
    yield ""


def _row_of_preset(preset: Preset) -> str:
    key = f"`{preset.key}`" if preset.in_file else "no"
    return f"| `{preset.option}` | `{preset.variable}` | {key} | {', '.join(preset.verbs) or 'all'} |"


def _of_verb(parser: VerbParser) -> Iterator[str]:
    yield "| argument | meaning |"
    yield "| --- | --- |"
    for title, actions in parser.groups[:-1]:  # the last group is the same for every verb
        if title not in ("options", "positional arguments"):
            yield f"| **{title}** | |"
        yield from map(_row_of_argument, actions)


def _row_of_argument(action: argparse.Action) -> str:
    metavar = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    named = " ".join([", ".join(action.option_strings), "" if action.nargs == 0 else str(metavar)]).strip()
    return f"| `{_cell(named)}` | {_cell(action.help or '')} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("%%", "%")


if __name__ == "__main__":
    for path, text in zip(sys.argv[1:], (command_line(), configuration()), strict=True):
        Path(path).write_text(text, encoding="utf-8")
