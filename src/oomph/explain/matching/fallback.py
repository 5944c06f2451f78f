"""Classifies the last error of a program, ordinary or not, if no page of the catalogue matches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.message import telling_lines
from oomph.explain.evidence.tracebacks import Tracebacks, installed, package, place_in_script
from oomph.explain.facts.fact import LogGap, RaisedError
from oomph.explain.matching.likeness import CORRECTED, Likeness, is_corrected, likely, likely_of_library
from oomph.explain.matching.lines import AT_END, gets_by, goes_on
from oomph.explain.public_names.table import keras_names, tensorflow_names
from oomph.files.patterns import lazy_pattern

UNRELATED = "unrelated"
UNRECOGNISED = "unrecognised"
GENERAL = (UNRELATED, UNRECOGNISED)
"""The names for an error that does not match any page."""

_CLASSES = (
    "Aborted AlreadyExists Cancelled DataLoss DeadlineExceeded FailedPrecondition Internal InvalidArgument NotFound "
    "OutOfRange PermissionDenied ResourceExhausted Unauthenticated Unavailable Unimplemented Unknown"
)
_PYTHON = (
    "Attribute EOF FileNotFound FloatingPoint Import ModuleNotFound NotImplemented OS Runtime Type UnicodeDecode Value"
)
# Classes that TensorFlow and Keras never raise for a machine fault.
_SCRIPTS_OWN = "Assertion Indentation Index Key Name Syntax Tab UnboundLocal ZeroDivision"
WORDS = frozenset({"Epoch", "Exception", "REQUIRES", "rendezvous", "Rendezvous", "endezvous", "StatusOr"}) | {
    f"{name}Error" for name in f"{_CLASSES} {_PYTHON} {_SCRIPTS_OWN} OperatorNotAllowedInGraph".split(" ")
}

_SURVIVED = lazy_pattern(r"Epoch \d+/\d+")
_RAISED = lazy_pattern(r"(?P<type>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?: ?:|\Z|\n)")
_ENDED_ON_PURPOSE = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
# An exception that mentions the underlying libraries is not the user's own, whatever its Python type.
_FOREIGN = lazy_pattern(
    r"errors_impl|CUDA_|CUDNN_|CUBLAS_|NCCL|StatusOr|XlaRuntimeError|WorkerGroupError|HorovodInternalError"
)
# The classes in tf.errors, for when only the name of the type is known, not its module.
_TENSORFLOW = lazy_pattern(rf"(?:{'|'.join(_CLASSES.split(' '))}|Op)Error")
# An error without its traceback: "InvalidArgumentError (see above for traceback): ...".
_CUT_OUT = lazy_pattern(
    rf"\s{{0,12}}(?:tensorflow[\w.]*\.)?(?:{'|'.join(_CLASSES.split(' '))})Error(?: \(see above for traceback\))?: "
)
# The same for a plain Python error, in which case it is unknown which code raised it.
_PASTED = lazy_pattern(
    r"\s{0,4}(?:(?:tensorflow[\w.]*\.)?OperatorNotAllowedInGraph"
    rf"|{'|'.join(f'{_PYTHON} {_SCRIPTS_OWN}'.split(' '))})Error(?: ?: |\Z)|\s{{0,4}}Exception: [A-Z]"
    r"|(?:[a-z_]\w{0,40}\.){1,8}[A-Z]\w{0,60}(?:Error|Exception): \S"
)
# Python's messages for such errors, on lines without the class, as people often copy them.
_SAID = {
    "TypeError": lazy_pattern(
        r"\w[\w.]{0,80}\(\) (?:got an unexpected keyword argument '|missing \d+ required |takes \d+ positional )"
        r"|unhashable type: '|'\w{1,60}' object is not (?:callable|subscriptable|iterable)\b"
        r"|only integer scalar arrays can "
    ),
    "AttributeError": lazy_pattern(
        r"(?:module|type object) '[\w.]{1,80}' has no attribute '|'\w{1,60}' object has no attribute '"
    ),
    "NameError": lazy_pattern(r"(?:global )?name '\w{1,80}' is not defined\b"),
    "ImportError": lazy_pattern(r"cannot import name '|[Nn]o module named '?\w"),
}
# The same within a sentence: "I get `Adam` object has no attribute `minimise`".
_TOLD = lazy_pattern(r"[`'\"](?P<class>[A-Z]\w{1,60})[`'\"] object has no attribute [`'\"](?P<name>\w{1,60})[`'\"]")
_SAID_WORDS = (
    " argument",
    "unhashable",
    "object ",
    "integer scalar",
    "has no attribute",
    "is not defined",
    "import name",
    "module named",
)
# The same after other words on the line: "I get TypeError: ...", "ERROR in step 3: ValueError: ...".
_BEHIND = lazy_pattern(
    rf"(?<=[\s:>`'\"*(])(?:{'|'.join(f'{_PYTHON} {_SCRIPTS_OWN}'.split(' '))})Error: (?!if |If |when |When )\S"
)
_NO_REPORT = lazy_pattern(
    r"Warning\b|WARN|DEBUG|INFO|\braise[sd]?\b|\bexcept\b|\bcatch|\bcaught\b|\bignor|\bretr(?:y|ies|ied)\b|^\s*#"
)
_MOST_BEFORE = 100
_FEW_LINES = 4
"""The maximum number of lines in text that may be a question about an error, without the error's class."""
# What argparse and absl print about the command line before they exit.
_USAGE = lazy_pattern(
    r"[\w./-]{1,80}: error: (?:the following arguments|argument |unrecognized arguments|ambiguous option)"
    r"|FATAL Flags parsing error: "
)
# What `python -m` prints before it exits. Nothing else prints this after the name of a Python executable.
_NO_MODULE = lazy_pattern(
    r"[\w./-]{0,200}python[\d.]{0,8}: (?:No module named |Error while finding module specification for )"
)
_MISTAKE = lazy_pattern(rf"\s{{0,4}}(?:{'|'.join(_SCRIPTS_OWN.split(' '))})Error\b|{_USAGE.pattern}")
# Messages about mistakes in the script itself, from Python and Keras, in classes that TensorFlow raises for many
# reasons.
_REFUSED = lazy_pattern(
    r"(?:FileNotFound|Permission)Error: \[|ModuleNotFoundError: No module named|JSON serializable|can(?:no|')t pickle "
    r"|cannot be interpreted as an integer|required positional argument|must compile your model|not yet been built"
    r"|Graph disconnected|No such layer|no loss to optimize|has never been called|must override `get_config`"
    r"|to HDF5 format requires|EagerTensor without building|identifier: |in read-only mode"
    r"|import pydot|'NoneType' object (?:is|has)|'(?:list|dict|set|tuple|str|int|float|bool)' object has no attribute '"
    r"|Error: module '(?!tensorflow|keras|numpy)[\w.]{1,80}' has no attribute|from 'scipy"
)
_OBJECT = lazy_pattern(r"AttributeError: '(?P<class>[A-Z]\w{1,60})' object has no attribute '")
# Classes of Keras and TensorFlow that are not public.
_OF_TENSORFLOW = lazy_pattern(
    r"Tensor\Z|Dataset\w*\Z|Variable\Z|Iterator\w*\Z|Layer\Z|Strategy\w*\Z|Optimizer\Z|Replica|Distributed|Resource"
    r"|\A(?:Functional|KerasHistory|Node|NoneType|TensorShape|Dimension|Graph\w*|Session|ConcreteFunction|GPUOptions)\Z"
)
# Words that are specific to training. Without any, a plain error with no traceback may come from any program.
_OF_KERAS = lazy_pattern(
    r"[Tt]ensor|[Kk]eras|TPU|[Ll]ayer|[Mm]odel\b|[Dd]ata ?set|[Gg]enerator|`\w{1,40}` argument|steps_per_epoch"
)
# "Local rendezvous is aborting with status: INTERNAL: No blas support for stream". The end of a data set
# (OUT_OF_RANGE), a cancelled sibling and a shutdown are reported in the same words, but are not failures. "Bad StatusOr
# access: INTERNAL: CUDA error: ..." is a RuntimeError from TensorFlow's own start-up.
_STATUS = ("endezvous is aborting with status: ", "Bad StatusOr access: ")
# W tensorflow/core/framework/op_kernel.cc:1651] OP_REQUIRES failed at mpi_ops.cc:316 : Unknown: Horovod has been ...
_REQUIRED = lazy_pattern(r"OP_REQUIRES failed at [\w.]{1,80}:\d+ : (?P<status>[A-Z][A-Za-z_ ]{3,30}): ")
_BENIGN_CODES = ("OUT_OF_RANGE", "Out of range", "CANCELLED", "Cancelled", "ABORTED", "Aborted")
_MESSAGE_LINES, _MESSAGE_LENGTH = 60, 6000
_LINES_AFTER = 5
"""The number of lines within which a program ends after its last error: a shell or a launcher says that it did."""
_MOST_LINES = 250  # of a message with frames in it
_DETAILS = 6  # the lines of a message to match advice against; later ones may belong to other messages
_CODE = "      "  # a line of source code under a frame
_IN_USER_CODE = "in user code"
_OWN_CODES = 255  # programs choose exit codes up to this, e.g. sys.exit(-1); crashes on Windows have larger ones
_EXIT_CODE = lazy_pattern(r"ended with exit code (?P<code>\d{1,4});")


# "2026-11-21 23:32:01,361 INFO    step 9 loss 0.13": a logger's lines appear as soon as they are written, but printed
# lines may appear late, from the buffer of a process that has already failed. A single logged line may be its last.
_LOGGED = lazy_pattern(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d,\d{3}\b.{0,60}\bINFO\b")
_GOES_ON = 2

_PLAIN, _PLAIN_OF_LIBRARY = 0.9, 0.6  # confidence in "unrelated"; TensorFlow also raises plain Python errors


class FallbackVerdict(NamedTuple):
    """The general name of an error with its confidence, and the facts that show the error."""

    likely: tuple[Likeness, ...]
    """The names, the most likely first; never empty."""
    evidence: tuple[Evidence, ...]
    position: int
    """The position of the last of these facts in the evidence."""

    @property
    def name(self) -> str:
        """The most likely name."""
        return self.likely[0].name


class _Message:
    """The printed message of the last error: its first line and those that follow."""

    def __init__(self, origin: str, first: str, library: str = "", importing: bool = False) -> None:
        self.origin = origin
        self.lines = [first]
        self.all_lines = [first]
        """The same with frames and lines of source code, in which Keras and TensorFlow wrap the reason."""
        self.library = library
        self.importing = importing

    def see(self, fact: Evidence) -> None:
        """Add the line if it continues the message. Lines of source code do not."""
        text = fact.text
        if fact.origin != self.origin:
            return
        if len(self.all_lines) < _MOST_LINES:
            self.all_lines.append(text)
        if text.startswith(_CODE) or len(self.lines) >= _MESSAGE_LINES:
            return
        if text.lstrip().startswith('File "'):
            if self.lines[0].rstrip().endswith(f"{_IN_USER_CODE}:"):
                self.library = package(text)
        else:
            self.lines.append(text)

    @property
    def text(self) -> str:
        """The message, cut off where the rest adds nothing new."""
        return "\n".join(self.lines)[:_MESSAGE_LENGTH]


class LastError:
    """Reads evidence in order, and keeps the last error after which training did not continue."""

    def __init__(self, has_advice: Callable[[Evidence], bool]) -> None:
        self._has_advice = has_advice
        """A function that returns True if the page for plain Python errors has advice on an error."""
        self.tracebacks = Tracebacks()
        self._raised: Evidence | None = None
        self._status: Evidence | None = None
        self._exit: Evidence | None = None
        self._message: _Message | None = None
        self._pasted: _Message | None = None
        self._pasted_fact: Evidence | None = None
        self._frame = ""
        """The last frame of a traceback whose first line is missing."""
        self._place = ""
        """The last frame of that traceback in the user's own code, such as "train.py:42 in step"."""
        self._lines: list[Evidence] = []
        """The first few lines read, which may be a question about an error, without the error's class."""
        self._last_line: int | None = None
        self._inside = ""
        """The installed package whose code raised the last exception of a complete traceback."""
        self._position = 0
        self._now = self._steps_after = 0
        self.story = 0
        """The number of times that training has continued. An error in an earlier story did not end the program."""
        self.first_ordinary: Evidence | None = None
        """The first plain Python error of the story, which may have caused later errors on other ranks."""

    def see(self, fact: Evidence, position: int) -> None:
        """Process the next fact. `position` is its position in the evidence."""
        self._now = position
        if fact.source == "progress":
            self._went_on()
        elif fact.source == "exit":
            self._see_exit(fact)
        elif fact.source == "exception":
            self._raise(fact, fact.text.partition(":")[0], *self.tracebacks.close(fact.origin))
        elif fact.source == "log":
            self._see_line(fact)

    def as_printed(self, fact: Evidence) -> Evidence:
        """Return the fact including the name that Python suggests, which Python prints but the exception lacks."""
        printed = "" if self._raised is None else self._raised.text
        is_corrected = fact.source == "exception" and printed.startswith(fact.text + CORRECTED)
        return fact._replace(text=printed) if is_corrected else fact

    @property
    def error(self) -> Evidence | None:
        """The line with the last error, or None."""
        return self._raised or self._status or self._pasted_fact

    @property
    def details(self) -> tuple[Evidence, ...]:
        """The later lines of the error's message, in which Keras 3 explains what the first line only announces."""
        error, said = self.error, self._message or self._pasted
        if error is None or said is None:
            return ()
        return tuple(error._replace(text=line) for line in said.lines[1:_DETAILS] if line.strip())

    @property
    def raised(self) -> RaisedError | None:
        """The exception that ended the program, with its whole message, or None."""
        error, said = self._raised or self._pasted_fact, self._message or self._pasted
        line = "" if said is None else said.lines[0].lstrip()
        found = None if error is None else _RAISED.match(line)
        if error is None or said is None or found is None:
            return None
        first = line[found.end() :].strip()
        return RaisedError(found["type"], telling_lines([first, *said.all_lines[1:]]), error.line)

    @property
    def gaps(self) -> tuple[LogGap, ...]:
        """The parts of the last traceback that the log lacks because it was cut."""
        if self.tracebacks.is_open:
            return () if self._raised is not None or self._pasted else (LogGap("error", self._last_line),)
        if self._raised is None and self._pasted_fact is not None and not self._place:
            return (LogGap("start of the traceback" if self._frame else "traceback", self._pasted_fact.line),)
        return ()

    def error_follows(self, shown: Iterable[Evidence]) -> bool:
        """True if one of these facts is the error of the traceback that seems to lack one: the log's last line."""
        lines = {fact.line for fact in shown if fact.source == "log" and not fact.text.startswith((" ", "\t"))}
        return self.tracebacks.is_open and self._last_line is not None and self._last_line in lines

    @property
    def where(self) -> str:
        """The innermost line of the user's own code in the last traceback, even one without its first line."""
        is_cut_out = self._raised is None and self._pasted is not None
        return self.tracebacks.where or (self._place if is_cut_out else "")

    @property
    def inside(self) -> str:
        """The installed package whose code raised the error; empty if it was the user's own code."""
        return self._inside if self._raised is not None else installed(self._frame)

    def verdict(self) -> FallbackVerdict | None:
        """Return the verdict on the error, or None if nothing failed or a person ended the program."""
        if self._raised is not None and is_ordinary(self._raised.text):
            names = self._of_library() or (Likeness(UNRELATED, _PLAIN),)
            return FallbackVerdict(names, (self._raised,), self._position)
        found = tuple(fact for fact in (self._status, self._raised) if fact is not None)
        if found:
            names = self._of_class() or (Likeness(UNRECOGNISED, 0.5 if self._raised else 0.4),)
            return FallbackVerdict(names, found, self._position)
        if self._pasted is not None and self._pasted_fact is not None:
            words = self._pasted.text
            own = _MISTAKE.match(words) or _REFUSED.search(words) or place_in_script(self._frame)
            mistake = (Likeness(UNRELATED, 0.5),) if own or _is_of_own_class(words) else ()
            if _NO_MODULE.match(words):
                mistake = (Likeness(UNRELATED, _PLAIN),)
            alike = mistake or likely_of_library(words)
            if not alike and _OF_KERAS.search(words) and self._has_advice(self._pasted_fact):
                alike = (Likeness(UNRELATED, 0.5),)
            if not alike and self._ends_in_pasted:
                alike = (Likeness(UNRECOGNISED, 0.3),) if _OF_KERAS.search(words) else (Likeness(UNRELATED, 0.4),)
            return FallbackVerdict(alike, (self._pasted_fact,), self._position) if alike else None
        if self._exit is None and len(self._lines) <= _FEW_LINES:
            asked = next((x for x in self._lines if _OF_KERAS.search(x.text) and self._has_advice(x)), None)
            return None if asked is None else FallbackVerdict((Likeness(UNRELATED, 0.4),), (asked,), self._position)
        unknown = (Likeness(UNRECOGNISED, 0.3),)
        return None if self._exit is None else FallbackVerdict(unknown, (self._exit,), self._position)

    @property
    def _ends_in_pasted(self) -> bool:
        """True if the evidence all but ends in a line that starts with the error's class, as a traceback does."""
        fact = self._pasted_fact
        is_last = self._now - self._position < _LINES_AFTER
        return fact is not None and is_last and _PASTED.match(fact.text) is not None

    def _of_library(self) -> tuple[Likeness, ...]:
        message = self._message
        if message is None or not message.library or is_corrected(message.lines[0]):
            return ()
        return likely_of_library(message.text, message.importing) or (Likeness(UNRELATED, _PLAIN_OF_LIBRARY),)

    def _of_class(self) -> tuple[Likeness, ...]:
        if self._message is not None:
            return likely(self._message.text)
        return likely(_status_in(self._status.text)) if self._status is not None else ()

    def _see_exit(self, fact: Evidence) -> None:
        found = _EXIT_CODE.match(fact.text)
        if found and int(found["code"]) == 0:
            self._went_on()
        elif found and int(found["code"]) > _OWN_CODES:
            self._exit, self._position = fact, self._now

    def _see_line(self, fact: Evidence) -> None:
        text, self._last_line = fact.text, fact.line
        if len(self._lines) <= _FEW_LINES:
            self._lines.append(fact)
        raised = self.tracebacks.see(fact)
        if self._pasted is None and text.lstrip().startswith('File "'):
            self._frame, self._place = text, place_in_script(text) or self._place
        if raised is not None and not raised.harmless:
            self._raise(fact, raised.type_name, raised.library, raised.importing)
            self._inside = raised.inside
        elif raised is None and "Error" in text and _CUT_OUT.match(text):
            self._raise(fact, text.partition(":")[0])
        elif raised is None and self._raised is None and (error := _pasted_error(text)):
            self._pasted_fact = fact if error in text else fact._replace(text=error)
            self._pasted, self._position = _Message(fact.origin, error), self._now
        elif raised is None and (message := self._message or self._pasted) is not None:
            message.see(fact)
        required = _REQUIRED.search(text) if "OP_REQUIRES" in text and not gets_by(text) else None
        if required and required["status"] not in _BENIGN_CODES:
            self._status, self._position = fact, self._now
        if (marker := next((m for m in _STATUS if m in text), None)) is not None:
            status = text.partition(marker)[2]
            if not (status.startswith(AT_END) or gets_by(text)):
                self._status, self._position = fact, self._now
        elif text.startswith("Epoch ") and _SURVIVED.match(text):
            self._went_on()
        elif "INFO" in text and _LOGGED.match(text) and goes_on(text):
            self._see_progress(fact)
        elif self._pasted is not None and goes_on(text):
            self._pasted = self._pasted_fact = None

    def _see_progress(self, fact: Evidence) -> None:
        """Count a step of the process that raised the error. A second step shows that the error was caught."""
        if self._raised is not None and fact.origin == self._raised.origin:
            self._steps_after += 1
            if self._steps_after >= _GOES_ON:
                self._raised = self._message = self.first_ordinary = None

    def _went_on(self) -> None:
        """Forget earlier errors, because they were caught."""
        self._raised = self._status = self._exit = self.first_ordinary = None
        self._message = self._pasted = self._pasted_fact = None
        self._frame = self._place = ""
        self.story += 1

    def _raise(self, fact: Evidence, type_name: str, library: str = "", importing: bool = False) -> None:
        self._raised, self._position, self._steps_after, self._inside = fact, self._now, 0, ""
        first, *rest = fact.text.split("\n")
        self._message = _Message(fact.origin, first, library, importing)
        for line in rest:
            self._message.see(fact._replace(text=line))
        if self.first_ordinary is None and is_ordinary(fact.text):
            self.first_ordinary = fact
        if type_name.rpartition(".")[2] in _ENDED_ON_PURPOSE:
            self._raised = self._status = self._exit = self._message = None


def _is_of_own_class(words: str) -> bool:
    """True if an object lacks an attribute whose class is the user's own, not Keras's or TensorFlow's."""
    found = _OBJECT.match(words)
    if found is None or _OF_TENSORFLOW.search(found["class"]):
        return False
    known = (name for names in (keras_names(), tensorflow_names()) for name in names.ending_in(found["class"]))
    return next(known, None) is None


def _pasted_error(text: str) -> str:
    """Return the error on a line without a traceback, starting with its class; empty if there is none."""
    if "Error" in text or "Exception: " in text:
        if _PASTED.match(text):
            return text
        behind = _BEHIND.search(text[:_MOST_BEFORE])
        if behind is not None and _NO_REPORT.search(text[: behind.start()]) is None:
            return text[behind.start() :]
    if ("error: " in text and _USAGE.match(text)) or (" module " in text and _NO_MODULE.match(text)):
        return text
    if any(word in text for word in _SAID_WORDS):
        bare = text.strip(' \t`*>"')
        if (said := next((f"{name}: {bare}" for name, said in _SAID.items() if said.match(bare)), "")) != "":
            return said
        told = _TOLD.search(text) if "object has no attribute" in text else None
        if told is not None and _NO_REPORT.search(text[: told.start()]) is None:
            return f"AttributeError: '{told['class']}' object has no attribute '{told['name']}'"
    return ""


def _status_in(text: str) -> str:
    """Return the text after the words that introduce a status, such as "INTERNAL: No blas support for stream"."""
    required = _REQUIRED.search(text)
    if required is not None:
        return text[required.start("status") :]
    return next((text.partition(marker)[2] for marker in _STATUS if marker in text), "")


def is_ordinary(text: str) -> bool:
    """True if "Type: message" is a plain Python error, not caused by the machine or a library."""
    found = _RAISED.match(text)
    if found is None or _FOREIGN.search(text):
        return False
    return _TENSORFLOW.fullmatch(found["type"].rpartition(".")[2]) is None
