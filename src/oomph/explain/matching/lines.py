"""Classifies the lines of a log (training, help page, harmless, failure), and keeps the last lines. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import lru_cache

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.tracebacks import is_of_traceback
from oomph.files.patterns import lazy_pattern

TRAINING_WORDS = frozenset(
    {"Epoch", "epoch", "loss", "Loss", "step", "steps", "Step", "accuracy", "acc", "iteration", "iter", "tasks"}
)
"""Words in the lines that training prints; see `oomph.explain.reading.log.Words`."""

# Matched against the line in lower case.
_TRAINS = lazy_pattern(
    r"(?<!\{)\bepoch\b\W{0,3}\d|\b(?:loss|acc|accuracy|mae|mse)\b\W{0,3}[-+]?\d|\d(?:s|ms|us)/(?:step|epoch|sample)\b"
    r"|global_step/sec|waiting for 0/\d+ tasks to connect|finished with exit code 0\b"
    r"|\b(?:step|iter|iteration)\b\W{0,3}\d[\d/]*\b.{0,40}\b(?:loss|duration)\b",
)
_IN_EVERY_SIGN = ("epoch", "loss", "acc", "mae", "mse", "step", "sample", "iter", "tasks to connect", "exit code 0")


@lru_cache(4096)
def goes_on(text: str) -> bool:
    """True if training prints this line while it makes progress."""
    lower = text[:500].lower()
    return any(word in lower for word in _IN_EVERY_SIGN) and _TRAINS.search(lower) is not None


HELP_WORDS = frozenset({"Help"})
"""Words in the first lines of a help page; see `oomph.explain.reading.log.Words`."""

# "Help on function fit in module keras.src.trainers.trainer:", which is how help() and pydoc start.
_HELP_BEGINS = lazy_pattern(r"Help on (?:[a-z]+ ){1,3}[\w.]{1,200}(?: in [\w. ]{1,200})?:")
# Lines of a help page that are not indented: "class Dense(Layer)", "fit(x, y)", "DESCRIPTION".
_OF_HELP = lazy_pattern(r"class \w|[a-z_][\w.]{0,100}(?: = \w{1,100})?\(|[A-Z ]{3,40}\Z")
_INDENTED = (" ", "\t", "|")


class Documentation:
    """Reads lines in order, and tracks whether they belong to a help page."""

    def __init__(self) -> None:
        self._within = False

    def holds(self, text: str) -> bool:
        """True if the line belongs to a help page, so that the errors in it did not occur."""
        if text.startswith("Help on "):
            self._within = _HELP_BEGINS.match(text) is not None
        elif self._within:
            margin = not text.startswith(_INDENTED)
            self._within = _OF_HELP.match(text) is not None if margin else not text.lstrip().startswith("Traceback ")
        return self._within


# Parts of TensorFlow whose failures do no harm: a graph is not optimised, or a kernel is not timed exactly. A generator
# may be closed after Python has shut down. Public buckets are read without a token. An iterator over stateful
# operations cannot be saved, so the checkpoint omits its position; if the script itself requested that, a traceback
# follows.
_GETS_BY = (
    "meta_optimizer.cc",
    "root_dataset.cc",
    "cuda_timer.cc",
    "remapper.cc",
    "finalizing GeneratorDataset",
    "automatically retried",
    "google_auth_provider.cc",
    "OP_REQUIRES failed at iterator_ops.cc",
)
_NOT_SAVED = ("Local rendezvous is aborting", " is stateful.")
# The executor prints this, with the reason, for every graph that it stops early. Most reasons are the end of a data
# set, or a placeholder that is not fed while a graph is only inspected. The reasons in `_FAILURES` are real failures.
_CALLED_HARMLESS = "(this does not indicate an error"
_FAILURES = ("UNKNOWN: ", "INTERNAL: ", "RESOURCE_EXHAUSTED: ", "DATA_LOSS: ")
_OF_PIP = (
    "Successfully installed ",
    "Requirement already satisfied",
    "Installing collected",
    "Collecting ",
    " Downloading ",
)
# A package built for a smaller NumPy type prints this warning and works. One that does not work raises ValueError.
_OF_PYTHON = ("RuntimeWarning: numpy.",)
AT_START = (
    *("Attempting to register factory", "cuInit", "Nvml call failed", "NUMA node"),
    *("ACPI ", "audit: type=", "tainting kernel"),
)
"""Words in lines that TensorFlow and the kernel print at the start of a healthy program."""
AT_END = ("OUT_OF_RANGE", "CANCELLED", "ABORTED: Shutdown")
"""The statuses that healthy training ends with: the end of a data set, a cancelled sibling, a shutdown."""
SHUTTING_DOWN = "Shutdown"


@lru_cache(4096)
def gets_by(text: str) -> bool:
    """True if the line comes from a part of TensorFlow that copes with its failure."""
    if _CALLED_HARMLESS in text:
        return not text.partition(_CALLED_HARMLESS)[2].partition("): ")[2].startswith(_FAILURES)
    return any(part in text for part in _GETS_BY) or all(part in text for part in _NOT_SAVED)


def is_harmless(text: str) -> bool:
    """True if this line also appears on healthy machines and in healthy training."""
    return gets_by(text) or any(words in text for words in (*AT_START, *AT_END, SHUTTING_DOWN, *_OF_PIP, *_OF_PYTHON))


LINES = 40
"""The number of last lines to keep. The reader always delivers them."""
_REPEATED = 10  # keep this many times as many at first, since repeats are dropped later

_WITHOUT_DIGITS = {ord(digit): None for digit in "0123456789"}
# "2024-08-11 20:04:18.331017: E ext/xla/cuda_fft.cc:485] ", "E0000 00:00:1795273984.028772  23189 platform.cc:52] "
_LEVEL = lazy_pattern(
    r"\s{0,12}(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: )?(?P<level>[IWEF])(?:\d{4} [\d:.]+ +\d+)? [\w./-]{1,200}:\d+\] "
)
_ADVICE = lazy_pattern(r"\s*(?:\[?(?:WARNING|WARN|DEBUG|NOTE|notice)\b|\w{0,80}Warning: |.{0,200}\w{1,80}Warning: )")
_WORDS = (
    *("error", "fail(?:ed|ure|s)?", "fatal", "abort(?:ed|ing)?", "killed", "crash(?:ed|es)?", "exception", "panic"),
    *("cannot", "can't", "could ?n[o']t", "could not", "unable", "terminat(?:ed|ing)", "denied", "refused", "invalid"),
    *("corrupt(?:ed|ion)?", "hangs", "stuck", "fr[eo]ezes?", "frozen", "time(?:d )?out", "segfault", "dumped", "lost"),
    *("segmentation fault", "illegal"),
    *("leak(?:s|ed|ing)?", "oom", "not found", "no such", "unexpected(?:ly)?", "died", "dead", "gone", r"signal:? \d+"),
)
_FAILURE = lazy_pattern(rf"(?i)\b(?:{'|'.join(_WORDS)})\b")
_NO_FAILURE = lazy_pattern(
    r"(?i)\b(?:(?:no|0|without(?: any)?|zero|round-off) (?:error|failure|exception)s?\b|timeout ?[=:] ?\w)"
)
# "#3 0x00007f86 in ncclGroupEnd () from lib.so", "* frame #0: 0x0000", "0  libucs.so.0(ucs_handle_error+0x2dc) [0x7f]"
_NATIVE_FRAME = lazy_pattern(
    r"(?:frame )?#\d{1,3}:? +0x[0-9a-f]{6,16}\b"
    r"|(?<=\S)\.(?:so|dylib|dll)[\w.]{0,20}(?:\([^)\n]{0,400}\) \[0x| +0x[0-9a-f]{6,16} )"
)
_ON_PURPOSE = ("KeyboardInterrupt", "SystemExit")
_OF_TRAINING = lazy_pattern(
    r"[Tt]ensor[Ff]low|[Kk]eras|[Hh]orovod|nccl|NCCL|cudnn|CUDA|\bcuda\b|\bGPUs?\b|\bXid\b|metal_plugin"
    r"|srun: |slurmstepd|\bMPI\b|\bEpoch \d|/job:"
)


class LastLines:
    """Keeps the last lines of the evidence, without repeats that differ only in numbers."""

    def __init__(self) -> None:
        self._seen = deque[tuple[Evidence, int]](maxlen=_REPEATED * LINES)

    def see(self, fact: Evidence, position: int) -> None:
        """Process the next line. `position` is its position in the evidence."""
        self._seen.append((fact, position))

    def ended_on_purpose(self, went_on: int) -> bool:
        """True if the user, or the program itself, deliberately ended it since training last continued."""
        return any(fact.text.startswith(_ON_PURPOSE) for fact, place in self._kept() if place > went_on)

    def error(self, went_on: int) -> Evidence | None:
        """Return the last line that TensorFlow marked as an error since training last continued."""
        errors = (fact for fact, place in reversed(self._kept()) if place > went_on and _level(fact.text) in ("E", "F"))
        return next((fact for fact in errors if not is_harmless(fact.text)), None)

    def _kept(self) -> list[tuple[Evidence, int]]:
        kept: list[tuple[Evidence, int]] = []
        form = ""
        for fact, place in self._seen:
            before, form = form, fact.text.translate(_WITHOUT_DIGITS)
            if kept and form == before:
                kept.pop()  # e.g. the next state of a progress bar
            kept.append((fact, place))
        return kept[-LINES:]

    def alarming(self, went_on: int) -> tuple[Evidence, ...]:
        """Return the lines from the first failure since training last continued; empty if there is no failure."""
        if not went_on and not tells_of_training(fact for fact, _ in self._kept()):
            return ()
        since = [fact for fact, place in self._kept() if place > went_on]
        if self.ended_on_purpose(went_on):
            return ()
        informs = max((number for number, fact in enumerate(since) if _level(fact.text) == "I"), default=-1)
        for number, fact in enumerate(since):
            outlived = number < informs and _level(fact.text)  # TensorFlow continued after its own error
            if not outlived and tells_of_failure(fact.text):
                return tuple(since[number:])
        return ()


def tells_of_training(lines: Iterable[Evidence]) -> bool:
    """True if any of these lines is about training."""
    return any(_OF_TRAINING.search(fact.text) for fact in lines)


def _level(text: str) -> str:
    """Return the level (I, W, E or F) of a line printed by TensorFlow itself; empty for any other line."""
    found = _LEVEL.match(text)
    return found["level"] if found else ""


def tells_of_failure(text: str) -> bool:
    """True if the line reports a failure, by its wording or its level, but not if it is merely a warning."""
    if is_harmless(text):
        return False
    if level := _level(text):
        return level in "EF"
    if _NATIVE_FRAME.search(text) or is_of_traceback(text):
        return True
    return _FAILURE.search(_NO_FAILURE.sub(" ", text)) is not None and _ADVICE.match(text) is None


_KILLED_OTHER = lazy_pattern(
    r"(?:Kill(?:ed)?|reaped) process \d+ \((?:java|mysqld|postgres|mongod|chrome|firefox|node|redis-server|apache2"
    r"|nginx|gnome-shell|Xorg|code|dockerd|containerd|systemd[\w-]*)\)"
)


def is_of_other_program(text: str) -> bool:
    """True if the kernel reports in this line that it ended a program which never trains a model."""
    return " process " in text and _KILLED_OTHER.search(text) is not None
