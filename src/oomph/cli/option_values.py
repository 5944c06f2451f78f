"""Parses the values of options: a checkpoint interval, a profile's steps, whole numbers."""

from __future__ import annotations

import argparse
import re

from oomph.errors import UsageError
from oomph.protocol.profile_window import ProfileWindow

_EVERY = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|min)?\Z")
_RESOURCE, _AMOUNT = re.compile(r"[\w.:/-]+"), re.compile(r"\d{1,15}(\.\d{1,4})?")
_LONGEST_NUMBER = 18
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def every(text: str | None) -> tuple[int | None, float | None]:
    """Parse the value of `--checkpoint-every` into steps or seconds. Raises UsageError for anything else."""
    if text is None:
        return None, None
    found = _EVERY.match(text)
    if found is None or float(found[1]) <= 0 or (found[2] is None and "." in found[1]):
        raise UsageError(f"--checkpoint-every expects steps (100) or a time (30s, 5m, 1h), not {text}")
    if found[2] is None:
        return int(found[1]), None
    return None, float(found[1]) * _UNITS[found[2]]


def checkpoint_interval(text: str) -> str:
    """Check the value of `--checkpoint-every`, for argparse. Raises UsageError."""
    every(text)
    return text


def profile_window(text: str) -> ProfileWindow:
    """Parse the value of `--profile`. Raises UsageError if it is not START:STOP."""
    try:
        return ProfileWindow.parse(text)
    except ValueError as error:
        raise UsageError(f"--profile: {error}") from None


def positive(text: str) -> int:
    """Parse a whole number above 0, for argparse."""
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)


def number_of_workers(text: str) -> int:
    """Parse the number of workers, for argparse. Raises UsageError."""
    from oomph.files.oomph_folder import MOST_WORKERS

    return _up_to(MOST_WORKERS, "--workers", text)


def worker_range(text: str) -> tuple[int | None, int]:
    """Parse the fewest workers of `oomph run`, or None for all of them, and the most. Raises UsageError."""
    fewest, is_range, most = text.partition(":")
    if not is_range:
        return None, number_of_workers(text)
    found = number_of_workers(fewest), number_of_workers(most)
    if found[0] >= found[1]:
        raise UsageError(f"--workers {text}: the first number has to be smaller than the second")
    return found


def resources(text: str) -> dict[str, float]:
    """Parse the value of `--resources-per-worker`, for argparse. Raises UsageError."""
    found = {}
    for part in text.split(","):
        name, _, amount = part.partition("=")
        if not _RESOURCE.fullmatch(name.strip()) or not _AMOUNT.fullmatch(amount.strip()):
            raise UsageError(f"--resources-per-worker expects NAME=AMOUNT, as in GPU=2,CPU=4, not {part}")
        found[name.strip()] = float(amount)
    needs = {name: amount for name, amount in found.items() if amount}
    if not needs:
        raise UsageError(f"--resources-per-worker {text}: each worker needs more than 0 of something, such as CPU=1")
    return needs


def nth_fit(text: str) -> int:
    """Parse the number given with `--fit`, for argparse. Raises UsageError."""
    from oomph.reach.channel import MOST_FITS

    return _up_to(MOST_FITS, "--fit", text)


def _up_to(most: int, option: str, text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER or not 1 <= int(text) <= most:
        raise UsageError(f"{option} expects a whole number from 1 to {most}, not {text}")
    return int(text)
