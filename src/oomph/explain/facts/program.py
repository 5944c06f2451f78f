"""Reads what the program was doing when it failed: the phase, the innermost frames, the graph node. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from oomph.explain.evidence.tracebacks import begins_traceback, frame_on, installed, is_in_library
from oomph.explain.facts.companions import companion_folders
from oomph.explain.facts.fact import CodePlace, FailedNode, InPhase, MissingModule, NodeKind, ProgramPhase
from oomph.files.patterns import lazy_pattern

# Functions of Keras and TensorFlow, and the phase that calling them begins. A later frame is nearer to the error.
_PHASES: dict[str, ProgramPhase] = {
    "<module>": "import",
    "fit": "fit",
    "fit_generator": "fit",
    "train_on_batch": "fit",
    "evaluate": "validation",
    "test_on_batch": "validation",
    "predict": "predict",
    "predict_on_batch": "predict",
    "compile": "compile",
    "save": "save",
    "save_model": "save",
    "save_weights": "save",
    "load_model": "load",
    "load_weights": "load",
    "model_from_json": "load",
    "deserialize_keras_object": "load",
    "from_config": "load",
    "from_tensor_slices": "data",
    "from_generator": "data",
    "flow_from_directory": "data",
    "flow_from_dataframe": "data",
    "image_dataset_from_directory": "data",
    "batch": "data",
    "map": "data",
    "build": "build",
    "compute_output_shape": "build",
    "compute_output_spec": "build",
    "add": "build",
}
_WITHIN: dict[ProgramPhase, frozenset[ProgramPhase]] = {
    "fit": frozenset({"validation", "save"}),
    "validation": frozenset(),
    "predict": frozenset(),
    "load": frozenset(),
    "save": frozenset(),
}
"""The phases that may begin within another one. Layers are also built in the first step of a fit."""
# The call in a source line of the user's own: Keras hides its frames between it and the error.
_CALL = lazy_pattern(r"\.(?P<method>[a-z_]{3,40})\(|\b(?P<function>load_model|save_model|model_from_json)\(")
_CODE = "    "
_OF_KERAS = lazy_pattern(r"[/\\](?:keras|tf_keras|tensorflow|tensorflow_core)[/\\]")


class _KindOfNode(NamedTuple):
    kind: NodeKind
    pattern: re.Pattern[str]


_KINDS_OF_NODES = (
    _KindOfNode("iterator", lazy_pattern(r"IteratorGetNext|IteratorV2|OneShotIterator")),
    _KindOfNode(
        "gradient", lazy_pattern(r"(?i)gradient_?tape/|(?:^|/)gradients?/|_grad/|BackpropFilter|BackpropInput")
    ),
    _KindOfNode(
        "weight slot",
        lazy_pattern(r"(?i)(?:^|/)(?:adam|adamw|adamax|nadam|sgd|rmsprop|adagrad|adadelta|ftrl|lion)(?:_\d+)?/"),
    ),
    _KindOfNode("embedding", lazy_pattern(r"(?i)embedding_lookup|/embedding(?:_\d+)?/|^embedding")),
    _KindOfNode("loss", lazy_pattern(r"(?i)crossentropy|(?:^|/)(?:compile_)?loss(?:es)?/|SoftmaxCrossEntropy")),
    _KindOfNode("metric", lazy_pattern(r"(?i)(?:^|/)(?:compile_)?metrics?/|confusion_matrix")),
    _KindOfNode("normalisation", lazy_pattern(r"(?i)batch_?norm|FusedBatchNorm|layer_?norm")),
)
_NODE = lazy_pattern(
    r"\{\{node (?P<name>[^}\n]{1,200})\}\}|[Dd]etected at node '?(?P<at>[^\s']{1,200})'? defined at|"
    r"\[\[(?P<plain>[\w/.-]{1,200}) \(defined at"
)

# A statement on a line of its own, in a log that shows code without frames.
_BARE_CALL = lazy_pattern(r"[\s>.$\d\[\]:-]{0,12}(?:\w{1,40} ?= ?)?(?:[\w.]{1,60}\.)?(?P<function>load_model)\(")
_CELL_LINE = lazy_pattern(r"(?P<arrow>-{1,6}> ?| {2,8})\[?\d{1,6}\]? (?P<code>\S.*)")
_ABSENT = lazy_pattern(r"[Nn]o module named '?(?P<module>[A-Za-z_][\w.]{1,100})")
_OF_KERAS_ITSELF = frozenset({"h5py", "absl", "google", "ml_dtypes", "jax", "jaxlib", "torch", "_pytest", "pluggy"})
"""Packages that call the user's code, or that TensorFlow and Keras call themselves."""


class ProgramReader:
    """Reads the lines of a log in order, and follows its last traceback."""

    def __init__(self) -> None:
        self.phase: InPhase | None = None
        self.own_place: CodePlace | None = None
        self.library_place: CodePlace | None = None
        self.node: FailedNode | None = None
        self.failing_package = ""
        self.missing: dict[str, MissingModule] = {}
        self._shown = ""
        """The line of a notebook's cell that the traceback shows before the one that failed."""
        self._frame: CodePlace | None = None

    def see(self, text: str, line: int | None) -> None:
        """Process the next line."""
        if begins_traceback(text):
            self.phase = self.own_place = self.library_place = None
            self.failing_package = ""
        if "node" in text or "defined at" in text:
            self._see_node(text, line)
        if "o module named" in text and (absent := _ABSENT.search(text)) is not None:
            self.missing.setdefault(absent["module"], MissingModule(absent["module"], line))
        frame = frame_on(text)
        if frame is None:
            if self._frame is not None and (code := _CELL_LINE.match(text)) is not None:
                self._see_code(self._frame, f"{self._shown} {code['code']}".strip(), line)
                self._shown = code["code"]
                if not code["arrow"]:
                    return
            elif self._frame is not None and text.startswith(_CODE):
                self._see_code(self._frame, text.strip(), line)
            self._frame, self._shown = None, ""
            if self.phase is None and "load_model(" in text and (call := _BARE_CALL.match(text)) is not None:
                self._begin_phase(call["function"], line)
            return
        file, code_line, function = frame
        self._frame = CodePlace(file, code_line, function, line)
        self._keep(self._frame)
        if not is_in_library(file):
            self.failing_package = companion_folder(file)
        elif (package := installed(text)) and package not in _OF_KERAS_ITSELF:
            self.failing_package = package
        if _OF_KERAS.search(text):
            self._begin_phase(function, line)

    def _see_code(self, place: CodePlace, code: str, line: int | None) -> None:
        """Take the source line below a frame."""
        self._keep(replace(place, code=code))
        if not is_in_library(place.file) and (call := _CALL.search(code)) is not None:
            self._begin_phase(call["method"] or call["function"], line)

    def _keep(self, place: CodePlace) -> None:
        if is_in_library(place.file):
            self.library_place = place
        else:
            self.own_place = place

    def _begin_phase(self, function: str, line: int | None) -> None:
        phase = _PHASES.get(function)
        if phase is None:
            return
        if self.phase is None or phase in _WITHIN.get(self.phase.phase, frozenset({phase})):
            self.phase = InPhase(phase, line)

    def _see_node(self, text: str, line: int | None) -> None:
        found = _NODE.search(text)
        if found is not None:
            name = found["name"] or found["at"] or found["plain"]
            self.node = FailedNode(name, _kind_of(name), line)


def companion_folder(file: str) -> str:
    """Return the folder of a known companion in which a file lies, as "scikeras/wrappers.py"; empty if in none."""
    folder = file.replace("\\", "/").partition("/")[0]
    return folder if "/" in file.replace("\\", "/") and folder in companion_folders() else ""


def _kind_of(node: str) -> NodeKind | None:
    return next((each.kind for each in _KINDS_OF_NODES if each.pattern.search(node)), None)
