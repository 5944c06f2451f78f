"""The forms in which a run may be named, the same for every verb: its folder, its name in `.oomph`, or a file of it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from oomph.errors import ExamineError
from oomph.explain.reading.file import is_run
from oomph.files.oomph_folder import MONITOR, NOTEBOOKS, OOMPH, RUNS

RUN_HELP = "a run directory, its name in .oomph, or its run.json (default: the newest run here)"
_DOCUMENTS = ("run.json", "summary.json", "report.html", "journal")
_KINDS = (RUNS, NOTEBOOKS, MONITOR)


def add_runs_dir(parser: argparse.ArgumentParser) -> None:
    """Declare `--runs-dir`, for a verb that looks for runs."""
    parser.add_argument(
        "--runs-dir", metavar="DIR", help="also look for runs in DIR, where oomph run --runs-dir puts them"
    )


def folders_of_runs(runs_dir: str | None) -> tuple[Path, ...]:
    """Return the folders to look for runs in: the working directory, and that of `--runs-dir`."""
    here = Path()
    if runs_dir is None or (os.path.exists(runs_dir) and os.path.samefile(runs_dir, here)):
        return (here,)
    return (here, Path(runs_dir))


def exists(path: Path) -> bool:
    """True if the file exists, even if this user is not allowed to inspect it."""
    try:
        path.stat()
    except PermissionError:
        return True  # it exists; reading it will report the error
    except (OSError, ValueError):
        return False
    return True


def run_of(word: str, runs_dir: str | None) -> str:
    """Return the run directory that a word names, by its name in `.oomph` or by one of its files, or else the word."""
    path = Path(word)
    if not exists(path):
        return _by_name(word, runs_dir)
    of_journal = path.parent.name == "journal" and path.suffix == ".jsonl"
    if path.name not in _DOCUMENTS and not of_journal:
        return word
    run = path.parent.parent if of_journal else path.parent
    try:
        return str(run) if is_run(run) else word
    except OSError:
        return word  # reading it will report the error


def _by_name(word: str, runs_dir: str | None) -> str:
    """Return the run in a `.oomph` with a name, or the word if there is none."""
    if not word or "/" in word or "\0" in word:
        return word
    places = (folder / OOMPH / kind / word for folder in folders_of_runs(runs_dir) for kind in _KINDS)
    return next((str(place) for place in places if is_run(place) or is_monitored(place)), word)


def run_directory(word: str | None, runs_dir: str | None = None) -> Path:
    """Return the run directory that a word names, or for None the newest run here. Raises ExamineError for others."""
    if word is None:
        newest = newest_run(runs_dir, or_monitored=True)
        if newest is None:
            where = "this folder" if runs_dir is None else f"this folder or {runs_dir}"
            raise ExamineError(f"there is no run in {where}: name a run directory, or train with oomph run")
        return newest
    path = Path(run_of(word, runs_dir))
    if not word or not exists(path):
        raise ExamineError(f"there is no run {word!r}{_hint(word, runs_dir)}")
    if not os.access(path.parent, os.X_OK):
        raise ExamineError(f"{word} cannot be read: permission denied")
    if not path.is_dir():
        raise ExamineError(f"{word} is a file: name a run directory")
    if not os.access(path, os.R_OK | os.X_OK):
        raise ExamineError(f"{word} cannot be read: permission denied")
    if not is_run(path) and not is_monitored(path):
        raise ExamineError(f"{word} is not an oomph run directory")
    return path


def is_monitored(path: Path) -> bool:
    """True for the folder of an `oomph.Monitor`, which has samples but may have no run."""
    return os.path.isdir(path / "monitor")


def newest_run(runs_dir: str | None = None, or_monitored: bool = False) -> Path | None:
    """Return the newest run in this folder and that of `--runs-dir`, this folder itself if it is a run, or None.

    Args:
        runs_dir: the value of `--runs-dir`.
        or_monitored: True if what `oomph.Monitor` has measured outside of a run counts, too.
    """
    from oomph.run.directory.search import runs_and_monitored, runs_in

    if is_run(Path()):
        return Path()
    runs = (runs_and_monitored if or_monitored else runs_in)(*folders_of_runs(runs_dir))
    return runs[0] if runs else None


def _hint(word: str, runs_dir: str | None) -> str:
    from oomph.cli.parser import similar
    from oomph.run.directory.search import own_runs

    return similar(word, [run.name for folder in folders_of_runs(runs_dir) for run in own_runs(folder)])
