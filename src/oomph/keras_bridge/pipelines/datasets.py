"""The parts of a `tf.data` pipeline: its datasets, the operations in their functions, and their dependencies."""

from __future__ import annotations

import enum
import inspect
import itertools
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_ops import STATEFUL
from oomph.protocol.reasons import Reason, because
from oomph.protocol.replacements import CALLS, STATELESS

_OF_PYTHON_OR_VARIABLES = ("PyFunc", "VariableOp", "RngReadAndSkip", "LookupTable")
"""Parts of the names of operations that depend on Python or on variables."""
_READERS = ("TextLine", "TFRecord", "FixedLengthRecord")
_IMAGE = "tf.image."
_BEHIND_IMAGES = ("tf.random.uniform",)
"""The calls whose kernels the functions in tf.image use to draw random numbers."""
_DEPTH = 3
"""The maximum depth to which calls between the script's functions are followed."""


class KernelDraws(enum.Enum):
    """A pipeline's use of random numbers from state in TensorFlow's kernels, which checkpoints do not contain."""

    NONE = "none"
    SEEDED = "seeded"
    """A new iterator draws the same numbers."""
    UNSEEDED = "unseeded"
    """A new iterator draws different numbers."""
    RACED = "raced"
    """Parallel calls draw them, so an element's numbers vary from one iterator to the next, even with a seed."""


def datasets_in(dataset: Any) -> Iterator[Any]:
    """Yield a dataset and every dataset that it is built from."""
    waiting = [dataset]
    while waiting:
        each = waiting.pop()
        if TENSORFLOW.dataset_functions.on(each):
            yield each
            waiting += _inputs_of(each)
        else:  # a dataset distributed by a strategy
            waiting += [inner for inner in (TENSORFLOW.original_dataset.get(each),) if inner is not None]


def shuffles(dataset: Any) -> bool:
    """True if a pipeline contains a shuffle."""
    return any("Shuffle" in type(each).__name__ for each in datasets_in(dataset))


def count_of_shuffles(dataset: Any) -> int:
    """Count the shuffles in a pipeline that draw a new order in each epoch."""
    return sum(map(_reshuffles, datasets_in(dataset)))


def caches_a_shuffle(dataset: Any) -> bool:
    """True if a cache stores the order of a shuffle, which does not run again once the cache is full."""
    caches = (each for each in datasets_in(dataset) if "Cache" in type(each).__name__)
    return any(map(count_of_shuffles, caches))


def writes_cache_file(dataset: Any) -> bool:
    """True if a pipeline caches to a file that is not complete yet."""
    names = (TENSORFLOW.cache_file.get(each) for each in datasets_in(dataset) if "Cache" in type(each).__name__)
    paths = (tf.get_static_value(name) for name in names if name is not None)
    return any(path and not os.path.exists(os.fsdecode(path) + ".index") for path in paths)


def is_begun_by_making(dataset: Any) -> bool:
    """True if creating and dropping an iterator advances the dataset as much as a full pass does.

    Each shuffle draws a seed for every iterator over it. Most iterators are created together with the user's iterator.
    But an iterator below a shuffle or within a repetition is created only when the first element is requested, and a
    cache keeps the order in which it was filled.
    """
    for each in datasets_in(dataset):
        kind, inputs = type(each).__name__, [below for one in _inputs_of(each) for below in datasets_in(one)]
        if "Cache" in kind:
            return False
        if any(word in kind for word in ("Shuffle", "Repeat", "Concatenate")) and any(map(_reshuffles, inputs)):
            return False
    return True


def repeats_shuffled(dataset: Any) -> bool:
    """True if a shuffle within a repetition draws a seed each time the data restarts, even during prefetching."""
    return any(
        "Repeat" in type(each).__name__ and any(map(_reshuffles, datasets_in(one)))
        for each in datasets_in(dataset)
        for one in _inputs_of(each)
    )


def _inputs_of(dataset: Any) -> list[Any]:
    return list(TENSORFLOW.dataset_inputs.call(dataset))


def _reshuffles(dataset: Any) -> bool:
    return "Shuffle" in type(dataset).__name__ and bool(TENSORFLOW.reshuffles.get(dataset, True))


def is_reproducible(dataset: Any) -> bool:
    """True if a new process gets the same batches, since the script sets a seed and requires a fixed order."""
    if dataset is None or TENSORFLOW.global_seed.value()() is None:
        return False
    return dataset.options().deterministic is not False


def depends_on_python(dataset: Any) -> bool:
    """True if Python creates the elements, or if they depend on variables."""
    return any(
        word in node.op for each in datasets_in(dataset) for node in _nodes_of(each) for word in _OF_PYTHON_OR_VARIABLES
    )


def changes_variables(dataset: Any) -> bool:
    """True if reading the dataset advances variables, such as the seeds of Keras' random layers."""
    return any(
        "Assign" in node.op or "RngReadAndSkip" in node.op for each in datasets_in(dataset) for node in _nodes_of(each)
    )


def kernel_draws(dataset: Any) -> KernelDraws:
    """Return how later elements depend on random numbers whose counts are kept inside kernels.

    A map over a single element has drawn all of its numbers before the first element arrives. Keras shuffles arrays
    this way.
    """
    if raced_call(dataset):
        return KernelDraws.RACED
    found = KernelDraws.NONE
    for each in datasets_in(dataset):
        drawn = [node for node in _nodes_of(each) if node.op in STATEFUL]
        if not drawn or _maps_one_element(each):
            continue
        if any(map(_draws_without_a_seed, drawn)):
            return KernelDraws.UNSEEDED
        found = KernelDraws.SEEDED
    return found


def lost_draws(dataset: Any) -> Reason | None:
    """Return why a new iterator would draw different random numbers from the last one, or None if it would not."""
    match kernel_draws(dataset):
        case KernelDraws.RACED:
            return because("raced", call=raced_call(dataset))
        case KernelDraws.UNSEEDED:
            return because("data-unseeded")
    return None


def drawn_calls(dataset: Any, kernel: str) -> tuple[str, ...]:
    """Return a pipeline's random operations, spelled as in scripts, or an empty tuple if this kernel is not random.

    The operation that the kernel belongs to comes first.
    """
    if kernel not in CALLS or kernel not in STATEFUL:
        return ()
    first, others = "", list[str]()
    for each in datasets_in(dataset):
        drawn = {node.op for node in _nodes_of(each)} & STATEFUL & CALLS.keys()
        known, named = {CALLS[one] for one in drawn}, [*_written_calls(each)]
        if not first and kernel in drawn:
            first = next(iter(named), "")
        written = [call for call in named if call in known or (drawn and call.startswith(_IMAGE))]
        others += [*written, *sorted(known.difference(written, _BEHIND_IMAGES if written else ()))]
    return tuple(dict.fromkeys([first or CALLS[kernel], *others]))


def raced_call(dataset: Any) -> str:
    """Return the random operation, spelled as in scripts, that a parallel stage calls; empty if there is none.

    Under `enable_op_determinism`, TensorFlow runs the calls in such a stage one after the other.
    """
    if TENSORFLOW.is_deterministic.value()():
        return ""
    for each in datasets_in(dataset):
        nodes = list(_nodes_of(each))
        drawn = next((node.op for node in nodes if node.op in CALLS), "")
        if drawn and _is_parallel(each, nodes) and not _maps_one_element(each):
            return next(_written_calls(each), "") or CALLS[drawn]
    return ""


def _is_parallel(dataset: Any, nodes: Sequence[Any]) -> bool:
    """True if several calls of the dataset's function, or of a function within it, run in parallel."""
    calls = TENSORFLOW.parallel_calls.get(dataset, None)
    number = None if calls is None else tf.get_static_value(calls)
    is_parallel = "Parallel" in type(dataset).__name__ or "MapAndBatch" in type(dataset).__name__
    return (is_parallel and number != 1) or any("ParallelMap" in n.op or "ParallelInterleave" in n.op for n in nodes)


def _written_calls(dataset: Any) -> Iterator[str]:
    """Yield the random calls that the user's function makes, judging by the names in its code."""
    for wrapper in TENSORFLOW.dataset_functions.call(dataset):
        function = TENSORFLOW.structured_function.get(wrapper)
        names = _names_in(function, _DEPTH)
        for call in STATELESS:
            module, _, name = call.removeprefix("tf.").partition(".")
            if (name in names and module in names) or function is getattr(getattr(tf, module), name):
                yield call


def _names_in(function: Any, depth: int) -> set[str]:
    """Return the names in the code of a function and of the functions that it calls."""
    plain = inspect.unwrap(getattr(function, "__func__", function)) if callable(function) else None
    code = getattr(plain, "__code__", None)
    if code is None or depth == 0:
        return set()
    found, waiting = set(), [code]
    while waiting:
        each = waiting.pop()
        found.update(each.co_names)
        waiting += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
    known = inspect.getclosurevars(plain) if isinstance(plain, FunctionType) else None
    called = [] if known is None else [*known.globals.values(), *known.nonlocals.values()]
    own = plain.__globals__.get("__name__") if isinstance(plain, FunctionType) else None
    for one in called:
        if isinstance(one, FunctionType) and one.__module__ == own and one is not plain:
            found |= _names_in(one, depth - 1)
    return found


def is_ordered_by_chance(dataset: Any) -> bool:
    """True if kernels draw each epoch's order at its start, without a seed, as for arrays passed to `fit`."""
    return any(
        _shuffles_without_a_seed(nodes) or (_maps_one_element(each) and any(map(_draws_without_a_seed, nodes)))
        for each in datasets_in(dataset)
        for nodes in _graphs_of(each)
    )


def order_of(dataset: Any) -> int:
    """Return a number that is the same in two processes only if they shuffle a pipeline in the same order."""
    if is_ordered_by_chance(dataset):
        return int.from_bytes(os.urandom(4), "little")
    seeds: list[Any] = []
    for each in datasets_in(dataset):
        if "Shuffle" in type(each).__name__:
            rows = TENSORFLOW.shuffle_seed, TENSORFLOW.shuffle_seed2
            seeds += [str(tf.get_static_value(row.of(each))) for row in rows if row.on(each)]
        elif _maps_one_element(each):
            seeds += [(node.attr["seed"].i, node.attr["seed2"].i) for node in _nodes_of(each) if node.op in STATEFUL]
    return zlib.crc32(repr(seeds).encode())


def reads_records(dataset: Any) -> bool:
    """True if a pipeline reads files of many samples, which a strategy shares among its workers file by file."""
    return any(
        reader in name
        for each in datasets_in(dataset)
        for name in (type(each).__name__, *(node.op for node in _nodes_of(each)))
        for reader in _READERS
    )


def _draws_without_a_seed(node: Any) -> bool:
    return node.op in STATEFUL and node.attr["seed"].i == 0 and node.attr["seed2"].i == 0


def _shuffles_without_a_seed(nodes: Sequence[Any]) -> bool:
    """True if a function creates unseeded shuffles; all other shuffles have seeds (`protocol/entropy.py`)."""
    constants = {node.name: node.attr["value"].tensor for node in nodes if node.op == "Const"}
    seeds = [node.input[2:4] for node in nodes if "ShuffleDataset" in node.op]
    return any(all(_is_zero(constants.get(name.partition(":")[0])) for name in names) for names in seeds)


def _is_zero(constant: Any) -> bool:
    return constant is not None and not tf.make_ndarray(constant).any()


def _maps_one_element(dataset: Any) -> bool:
    return (
        type(dataset).__name__.endswith("MapDataset")
        and "Flat" not in type(dataset).__name__
        and all(int(tf.data.experimental.cardinality(each)) == 1 for each in _inputs_of(dataset))
    )


def _nodes_of(dataset: Any) -> Iterator[Any]:
    """Yield the operations of all functions that a dataset calls, directly or indirectly, as GraphDef nodes."""
    return itertools.chain.from_iterable(_graphs_of(dataset))


def _graphs_of(dataset: Any) -> Iterator[Sequence[Any]]:
    """Yield the operations of each function that a dataset calls, directly or indirectly, as a sequence of nodes."""
    for wrapper in TENSORFLOW.dataset_functions.call(dataset):
        graph = getattr(getattr(wrapper, "function", None), "graph", None)
        if graph is not None:
            definition = graph.as_graph_def()
            yield definition.node
            yield from (function.node_def for function in definition.library.function)


_BEFORE_A_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def chain(dataset: Any) -> list[Any]:
    """List the datasets that a pipeline is built from, from the source to the pipeline itself."""
    found: list[Any] = []
    _collect(dataset, found, set())
    return found


def _collect(dataset: Any, found: list[Any], seen: set[int]) -> None:
    if id(dataset) in seen or len(found) > 500:
        return
    seen.add(id(dataset))
    for before in TENSORFLOW.dataset_inputs.call(dataset) if TENSORFLOW.dataset_inputs.on(dataset) else ():
        _collect(before, found, seen)
    found.append(dataset)


def kind_of(dataset: Any) -> str:
    """Return the kind of a dataset, derived from its class: "map" for a _ParallelMapDataset."""
    name = re.sub(r"(Dataset)?(V\d)?$", "", type(dataset).__name__.lstrip("_"))
    return _BEFORE_A_WORD.sub("_", name).lower().removeprefix("parallel_")


def functions_of(dataset: Any) -> Iterator[Any]:
    """Yield the concrete functions of a dataset such as a map, a filter or an interleave."""
    for wrapper in TENSORFLOW.dataset_functions.call(dataset) if TENSORFLOW.dataset_functions.on(dataset) else ():
        function = getattr(wrapper, "function", None)
        if function is not None:
            yield function


def static(tensor: Any) -> int | None:
    """Return the value of a dataset's argument if it is a known constant number, or None."""
    try:
        value = tf.get_static_value(tensor) if tensor is not None else None
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
