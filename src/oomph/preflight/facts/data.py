"""The data of a training as the rules see them: the parts of an element, and a sample of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oomph.planning.data_buffers import NO_ROOM_KNOWN, DataBuffer, Room
from oomph.preflight.facts.model import Shape

ARRAYS, DATASET, GENERATOR, PY_DATASET, BATCH = "arrays", "tf.data", "generator", "PyDataset", "batch"
"""Kinds of data source; BATCH is one `train_on_batch` call or one custom-loop step."""
LOADER, OTHER = "data loader", "other data"
"""Data of Grain or PyTorch; and what `oomph check` does not read."""
ENDLESS = -1
"""The number of batches in data that never end."""
BATCHING = ("batch", "padded_batch", "ragged_batch", "rebatch")
"""The kinds of stages that make batches."""
CLASSES = 4096
"""Distinct values are counted up to this many."""


@dataclass(frozen=True)
class Features:
    """The columns of a table, or the channels of images: statistics over all but the last dimension."""

    deviations: tuple[float, ...]
    """The standard deviation of each feature over the sample; at most the first 4,096 features."""
    largest: tuple[float, ...]
    """The largest absolute value of each."""
    usual: tuple[float, ...] = ()
    """The 99th percentile of each feature's absolute values if its largest may be an outlier, or else its largest."""
    constant: tuple[int, ...] = ()
    """The indices of the features with one value only."""
    missing: tuple[int, ...] = ()
    """The indices of the features with NaN."""
    like_target: tuple[int, ...] = ()
    """The indices of the features that determine the target by themselves: the same values, or a one-to-one line.

    Of windows of a series, counted on over all steps.
    """


@dataclass(frozen=True)
class DataSample:
    """The values of one part in a sample of the data."""

    rows: int
    """Number of samples (elements, not batches) looked at."""
    is_whole: bool = False
    """True if these are all there are."""
    minimum: float | None = None
    """Over finite values; None for strings and empty parts."""
    maximum: float | None = None
    mean: float | None = None
    deviation: float | None = None
    nan_rows: int = 0
    first_nan: int | None = None
    """The index of the first row with NaN."""
    infinite_rows: int = 0
    is_integral: bool = False
    """True if all finite values are whole numbers."""
    zero_share: float = 0.0
    counts: Mapping[float, int] = field(default_factory=dict)
    """Occurrences of each value; empty if there are more than `CLASSES` values, or fractions."""
    classes: Mapping[int, int] = field(default_factory=dict)
    """Occurrences of each class, for targets that are whole numbers or one-hot rows."""
    zero_one: bool = False
    """True if all values are 0 or 1."""
    row_sums: tuple[float, float] | None = None
    """The smallest and the largest sum over the last dimension; None for less than two dimensions."""
    longest_run: int = 0
    """The longest run of one label, in the order in which samples arrive; for targets that are classes."""
    changes: int | None = None
    """Number of samples whose label differs from the previous one; None if not counted."""
    zero_rows: int = 0
    """Number of rows that are all zeros."""
    duplicate_rows: int = 0
    """Number of rows that duplicate an earlier row, in x and y."""
    repeated_inputs: int = 0
    """The same count, for x alone."""
    features: Features | None = None


@dataclass(frozen=True)
class Part:
    """One tensor of an element."""

    role: str
    """"x", "y" or "sample_weight"."""
    name: str
    """Name in the user's code: "x", "x['age']", "y[1]"."""
    key: str = ""
    """Its key in a dictionary, or empty."""
    shape: Shape | None = None
    """Shape with the batch dimension; None if the rank is unknown."""
    dtype: str = "float32"
    is_ragged: bool = False
    is_sparse: bool = False
    sample: DataSample | None = None
    """None if not looked at."""
    equals_target: bool = False
    """True if its values equal those of the first target."""
    empty_share: float = 0.0
    """Share of empty strings, for text."""
    rows: int | None = None
    """Number of samples in an array; None for other data."""
    shapes: tuple[Shape, ...] = ()
    """The distinct shapes of the batches that were looked at."""


@dataclass(frozen=True)
class Stage:
    """One stage of a tf.data pipeline, source first."""

    kind: str
    """"map", "batch", "shuffle", "cache", "repeat", "prefetch", "take", "skip", "source", ..."""
    place: str = ""
    """The file and line of its function: "train.py:12"; empty where it has none."""
    function: str = ""
    buffer: int | None = None
    """Elements that shuffle or prefetch holds; -1: chosen by tf.data."""
    batch: int | None = None
    count: int | None = None
    """Count of take, skip or repeat; -1: no limit."""
    is_parallel: bool = False
    is_random: bool = False
    """True if its function draws random numbers."""
    reshuffles: bool | None = None
    frozen_random: str = ""
    """The call by which its function draws random numbers in Python, once for all elements: "np.random.randint"."""
    moves_alone: bool = False
    """True if it moves images at random, but not their masks."""
    is_python: bool = False
    """True if its function runs Python for each element."""
    elements: int | None = None
    """Number of elements; -1 if endless, None if unknown."""
    inputs: int = 1
    """Number of input pipelines."""
    identity: int = 0
    """Equal for stages that are one object, as when two pipelines share them."""


@dataclass(frozen=True)
class Data:
    """Training or validation data given to fit."""

    kind: str
    parts: tuple[Part, ...] = ()
    batch: int | None = None
    """Samples in a batch; None if unknown."""
    batches: int | None = None
    """Number of batches, or ENDLESS; None if unknown."""
    samples: int | None = None
    """Number of samples; None if unknown."""
    stages: tuple[Stage, ...] = ()
    """Stages of a tf.data pipeline."""
    buffers: tuple[DataBuffer, ...] = ()
    """Elements kept by the stages, source first."""
    room: Room = NO_ROOM_KNOWN
    """Space for the buffers on this machine."""
    shuffled_apart: bool = False
    """True if inputs and targets are shuffled separately, then zipped."""
    same_batches: int = 0
    """Number of batches compared if all are identical, or else 0."""
    empty_batch: int | None = None
    """The index of the first empty batch."""
    failed: str = ""
    """The message of the exception that the data raised while being looked at."""
    failed_after: int = 0
    """Number of batches read before the failure."""
    failed_record: str = ""
    """The file or record that failed, if found."""
    has_length: bool = False
    """True if Keras knows the number of batches before it has read them."""
    unread: str = ""
    """The class of data that were not looked at."""
    seen_in_training: float | None = None
    """Share of validation samples also found in the training data, among those looked at."""

    def of(self, role: str) -> tuple[Part, ...]:
        """The parts in a role."""
        return tuple(part for part in self.parts if part.role == role)

    @property
    def batching_stages(self) -> int:
        """The number of stages that make batches."""
        return sum(stage.kind in BATCHING for stage in self.stages)

    @property
    def is_single_sample(self) -> bool:
        """True if each element is certainly one sample: no stage makes batches, and a target is a scalar."""
        return bool(self.stages) and not self.batching_stages and any(part.shape == () for part in self.of("y"))
