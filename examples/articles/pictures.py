"""The data and the network of the articles' examples: those of `examples/digits.py`, which lies one folder above."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from digits import build as network  # noqa: F401
from digits import load

images, labels, test_images, test_labels = load("float32")
