"""The training data as the rules see it: the parts of an element, and a sample of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.planning.data_buffers import NO_ROOM_KNOWN, DataBuffer, Room
from oomph.preflight.facts.model import Shape

ARRAYS, DATASET, GENERATOR, PY_DATASET, BATCH = "arrays", "tf.data", "generator", "PyDataset", "batch"
"""The kinds of data source; BATCH is one `train_on_batch` call or one custom-loop step."""
LOADER, OTHER = "data loader", "other data"
"""LOADER is data from a Grain or PyTorch loader; OTHER is data that `oomph check` does not read."""
ENDLESS = -1
"""The number of batches that represents endless data."""
BATCHING = ("batch", "padded_batch", "ragged_batch", "rebatch")
"""The kinds of stages that form batches."""
CLASSES = 4096
"""The maximum number of distinct values to count."""


@dataclass(frozen=True)
class Features:
    """Statistics for each feature (table column or image channel), taken over all dimensions but the last."""

    deviations: tuple[float, ...]
    """The standard deviation of each feature over the sample, for at most the first 4,096 features."""
    largest: tuple[float, ...]
    """The largest absolute value of each feature."""
    usual: tuple[float, ...] = ()
    """The 99th percentile of each feature's absolute values if the largest may be an outlier, otherwise the largest."""
    constant: tuple[int, ...] = ()
    """The indices of features with only a single value."""
    missing: tuple[int, ...] = ()
    """The indices of features that contain NaN."""
    like_target: tuple[int, ...] = ()
    """The indices of features that determine the target on their own: they equal it or are a linear function of it.

    For windows over a series, the indices run on across time steps.
    """


@dataclass(frozen=True)
class DataSample:
    """Statistics of one part's values in a sample of the data."""

    rows: int
    """The number of samples read, counting individual elements rather than batches."""
    is_whole: bool = False
    """True if the sample is the entire data."""
    minimum: float | None = None
    """The smallest finite value; None for strings and empty parts."""
    maximum: float | None = None
    mean: float | None = None
    deviation: float | None = None
    nan_rows: int = 0
    first_nan: int | None = None
    """The index of the first row that contains NaN."""
    infinite_rows: int = 0
    is_integral: bool = False
    """True if all finite values are whole numbers."""
    zero_share: float = 0.0
    counts: Mapping[float, int] = field(default_factory=dict)
    """The number of occurrences of each value; empty if there are more than `CLASSES` values, or any fractions."""
    classes: Mapping[int, int] = field(default_factory=dict)
    """The number of occurrences of each class, for targets that are whole numbers or one-hot rows."""
    zero_one: bool = False
    """True if all values are 0 or 1."""
    row_sums: tuple[float, float] | None = None
    """The smallest and largest sums over the last dimension; None for fewer than two dimensions."""
    longest_run: int = 0
    """The longest run of identical labels, in order of arrival; only for targets that are classes."""
    changes: int | None = None
    """The number of samples whose label differs from the previous one; None if not counted."""
    zero_rows: int = 0
    """The number of rows that are all zeros."""
    duplicate_rows: int = 0
    """The number of rows whose x and y both duplicate an earlier row."""
    repeated_inputs: int = 0
    """The number of rows whose x duplicates an earlier x."""
    features: Features | None = None


@dataclass(frozen=True)
class Part:
    """One tensor of an element."""

    role: str
    """"x", "y" or "sample_weight"."""
    name: str
    """The part's name in the user's code: "x", "x['age']", "y[1]"."""
    key: str = ""
    """The part's key in a dictionary; empty if it has none."""
    shape: Shape | None = None
    """The shape, including the batch dimension; None if the rank is unknown."""
    dtype: str = "float32"
    is_ragged: bool = False
    is_sparse: bool = False
    sample: DataSample | None = None
    """Statistics of the part's values; None if they were not read."""
    equals_target: bool = False
    """True if its values equal the first target's."""
    empty_share: float = 0.0
    """The share of strings that are empty, for text."""
    rows: int | None = None
    """The number of samples in an array; None for other data."""
    shapes: tuple[Shape, ...] = ()
    """The distinct shapes of the batches read."""


@dataclass(frozen=True)
class Stage:
    """One stage of a tf.data pipeline."""

    kind: str
    """"map", "batch", "shuffle", "cache", "repeat", "prefetch", "take", "skip", "source", ..."""
    place: str = ""
    """The file and line of its function, such as "train.py:12"; empty if it has no function."""
    function: str = ""
    buffer: int | None = None
    """The buffer size, in elements, of a shuffle or prefetch; -1 if tf.data chooses it."""
    batch: int | None = None
    count: int | None = None
    """The count passed to take, skip or repeat; -1 for no limit."""
    is_parallel: bool = False
    is_random: bool = False
    """True if its function draws random numbers."""
    reshuffles: bool | None = None
    frozen_random: str = ""
    """The call in its function that draws Python random numbers only once for all elements: "np.random.randint"."""
    moves_alone: bool = False
    """True if it randomly transforms images but not their masks."""
    is_python: bool = False
    """True if its function runs Python for each element."""
    elements: int | None = None
    """The number of elements that the stage yields; -1 if endless, None if unknown."""
    inputs: int = 1
    """The number of pipelines that feed into it."""
    identity: int = 0
    """A number that identifies the stage object; two pipelines that share the stage have the same number."""


@dataclass(frozen=True)
class Data:
    """The training or validation data passed to fit."""

    kind: str
    parts: tuple[Part, ...] = ()
    batch: int | None = None
    """The number of samples per batch; None if unknown."""
    batches: int | None = None
    """The number of batches, or ENDLESS; None if unknown."""
    samples: int | None = None
    """The number of samples; None if unknown."""
    stages: tuple[Stage, ...] = ()
    """The stages of a tf.data pipeline."""
    buffers: tuple[DataBuffer, ...] = ()
    """The elements that the stages buffer, source first."""
    room: Room = NO_ROOM_KNOWN
    """The space available for the buffers on this machine."""
    shuffled_apart: bool = False
    """True if inputs and targets are shuffled separately, then zipped."""
    same_batches: int = 0
    """The number of batches compared if all were identical; 0 otherwise."""
    empty_batch: int | None = None
    """The index of the first empty batch."""
    failed: str = ""
    """The exception message if reading the data failed."""
    failed_after: int = 0
    """The number of batches read before the failure."""
    failed_record: str = ""
    """The file or record that caused the failure, if it was found."""
    has_length: bool = False
    """True if Keras knows the number of batches before reading them."""
    unread: str = ""
    """The data's class name if the data was not read; empty otherwise."""
    seen_in_training: float | None = None
    """The share of the examined validation samples that also occur in the training data."""

    def of(self, role: str) -> tuple[Part, ...]:
        """Return the parts with the given role: "x", "y" or "sample_weight"."""
        return tuple(part for part in self.parts if part.role == role)

    @property
    def batching_stages(self) -> int:
        """The number of stages that form batches."""
        return sum(stage.kind in BATCHING for stage in self.stages)

    @property
    def is_single_sample(self) -> bool:
        """True if each element is certainly a single sample: no stage forms batches, and a target is a scalar."""
        return bool(self.stages) and not self.batching_stages and any(part.shape == () for part in self.of("y"))
