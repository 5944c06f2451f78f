"""Compares two training results: `python weights.py A.npz B.npz` prints one JSON document. Needs only NumPy.

This runs as a script, so that the `oomph demo` process does not have to load NumPy.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

ACCURACY = "accuracy"


def compare(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the accuracies, the weights' precision, and the largest difference between corresponding weights.

    Weights that are missing, not finite, or of a different shape or type raise ValueError, since no number can express
    the difference.
    """
    names = sorted(first.keys() - {ACCURACY})
    if not names or first.keys() != second.keys():
        raise ValueError("the two results do not contain the same weights")
    largest = 0.0
    for name in names:
        a, b = first[name], second[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"{name} is {a.dtype}{list(a.shape)} in one result, {b.dtype}{list(b.shape)} in the other")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ValueError(f"{name} contains numbers that are not finite")
        largest = max(largest, float(np.abs(a.astype("float64") - b.astype("float64")).max(initial=0.0)))
    return {
        "accuracies": [float(first[ACCURACY]), float(second[ACCURACY])],
        "dtypes": sorted({str(first[name].dtype) for name in names}),
        "difference": largest,
    }


def main(paths: list[str]) -> int:
    """Compare two files, and return 1 if they cannot be compared."""
    try:
        results = []
        for path in paths:
            with np.load(path, allow_pickle=False) as file:
                results.append({name: file[name] for name in file.files})
        print(json.dumps(compare(results[0], results[1])))
    except (OSError, ValueError, KeyError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
