"""Lines, even errors, that TensorFlow writes on healthy machines and in healthy trainings."""

from __future__ import annotations

from functools import lru_cache

# Parts of TensorFlow that do without what they tried: graphs are then not optimised, kernels not timed exactly.
# One of them is a generator that is closed after Python has gone, and so is the node named after it.
# Public buckets are read without a token.
_GETS_BY = (
    "meta_optimizer.cc",
    "root_dataset.cc",
    "cuda_timer.cc",
    "remapper.cc",
    "finalizing GeneratorDataset",
    "automatically retried",
    "google_auth_provider.cc",
)
# The executor says so of every graph that it ends early, with the reason. Most reasons are the end of a data set or a
# placeholder that is not fed while a graph is only looked at; these are given for what went wrong.
_CALLED_HARMLESS = "(this does not indicate an error"
_FAILURES = ("UNKNOWN: ", "INTERNAL: ", "RESOURCE_EXHAUSTED: ", "DATA_LOSS: ")
_OF_PIP = (
    "Successfully installed ",
    "Requirement already satisfied",
    "Installing collected",
    "Collecting ",
    " Downloading ",
)
# A package that was built for a smaller type of NumPy's says so and works; one that does not raises ValueError.
_OF_PYTHON = ("RuntimeWarning: numpy.",)
AT_START = (
    *("Attempting to register factory", "cuInit", "Nvml call failed", "NUMA node"),
    *("ACPI ", "audit: type=", "tainting kernel"),
)
"""Words of lines that TensorFlow and the kernel write at the start of a healthy program."""
AT_END = ("OUT_OF_RANGE", "CANCELLED", "ABORTED: Shutdown")
"""Statuses that a healthy training ends with: the end of a data set, a cancelled sibling, a shutdown."""
SHUTTING_DOWN = "Shutdown"


@lru_cache(4096)
def gets_by(text: str) -> bool:
    """True if the line is from a part of TensorFlow that copes with its failure."""
    if _CALLED_HARMLESS in text:
        return not text.partition(_CALLED_HARMLESS)[2].partition("): ")[2].startswith(_FAILURES)
    return any(part in text for part in _GETS_BY)


def is_harmless(text: str) -> bool:
    """True if healthy machines and trainings write this line, too."""
    return gets_by(text) or any(words in text for words in (*AT_START, *AT_END, SHUTTING_DOWN, *_OF_PIP, *_OF_PYTHON))
