"""Builds traces as TensorFlow's profiler writes them: the messages of xplane.proto, of which only some fields are read.

The planes, lines, names and stats are those that CUPTI's tracer and the executor give them, as found in traces of
others: https://github.com/AMD-AGI/TraceLens (tests/traces) and https://github.com/openxla/xprof (test_xplanes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

US = 1_000_000
"""Picoseconds in a microsecond."""


class Made(NamedTuple):
    """An event to build, with times in microseconds."""

    name: str
    begin: float
    length: float
    stats: Mapping[str, str | int] = {}


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def plane(name: str, lines: Mapping[str, Sequence[Made]], begins_ns: int = 0, refs: bool = True) -> bytes:
    """Build a plane. Texts in stats are references to the table, as the tracers write them, or spelled out."""
    made = [event for events in lines.values() for event in events]
    names = {name: at for at, name in enumerate(dict.fromkeys(event.name for event in made), 1)}
    words = [text for event in made for pair in event.stats.items() for text in pair if isinstance(text, str)]
    stats = {text: at for at, text in enumerate(dict.fromkeys(words), 1)}

    def stat(key: str, value: str | int) -> bytes:
        if isinstance(value, int):
            return field(1, stats[key]) + field(4, value)
        return field(1, stats[key]) + (field(7, stats[value]) if refs else field(5, value))

    def event(each: Made) -> bytes:
        own = field(1, names[each.name]) + field(2, int(each.begin * US)) + field(3, int(each.length * US))
        return own + b"".join(field(4, stat(*pair)) for pair in each.stats.items())

    def line(number: int, title: str, events: Sequence[Made]) -> bytes:
        own = field(1, -number) + field(2, title) + field(3, begins_ns)
        return own + b"".join(field(4, event(each)) for each in events)

    def entry(number: int, text: str) -> bytes:
        return field(1, number) + field(2, field(1, number) + field(2, text))

    parts = [field(1, 1), field(2, name)]
    parts += [field(3, line(number, title, events)) for number, (title, events) in enumerate(lines.items(), 1)]
    parts += [field(4, entry(number, text)) for text, number in names.items()]
    parts += [field(5, entry(number, text)) for text, number in stats.items()]
    return field(1, b"".join(parts))


def step(number: int, begin: float, length: float) -> Made:
    return Made("train", begin, length, {"step_num": number, "_r": 1})


def kernel(name: str, operation: str, begin: float, length: float) -> Made:
    return Made(name, begin, length, {"kernel_details": "regs:32 grid:1,1,1 block:256,1,1", "tf_op": operation})


def copy(name: str, size: int, begin: float, length: float) -> Made:
    details = f"kind_src:host kind_dst:device size:{size} dest:0 async:1"
    return Made(name, begin, length, {"memcpy_details": details, "correlation_id": 7})


EAGER = "EagerLocalExecute: "
MATMUL, RELU = "model/dense/MatMul:MatMul", "model/dense/Relu:Relu"


def of_gpu() -> bytes:
    """Two steps of 100 µs on a GPU, which is idle for a quarter of the time; copies overlap with kernels."""
    host = plane("/host:CPU", {
        "python": [step(11, 0, 100), step(12, 100, 100), Made("TFE_Py_ExecuteCancelable", 1, 90)],
        "tf_data_iterator_get_next/1": [Made("IteratorGetNextOp::DoCompute", 5, 10, {"id": 1})] * 2,
        "tf_Compute/2": [Made(MATMUL, 10, 1), Made("ExecutorState::Process", 9, 40)],
    })  # fmt: skip
    gpu = plane("/device:GPU:0", {
        "Stream #14(Compute)": [
            kernel("ampere_sgemm_128x64_nn", MATMUL, 20, 60),
            kernel("ampere_sgemm_128x64_nn", MATMUL, 120, 60),
            kernel("void Eigen::internal::EigenMetaKernel<float>", RELU, 80, 10),
            Made("Memset", 90, 10, {"memset_details": "kind:device size:4 async:1"}),
        ],
        "Stream #15(MemcpyH2D,MemcpyD2H)": [
            copy("MemcpyH2D", 1000, 15, 10), copy("MemcpyH2D", 3000, 30, 5), copy("MemcpyD2H", 4, 195, 5),
        ],
        "TensorFlow Ops": [Made(MATMUL, 20, 160)],
        "Steps": [Made("11", 0, 200)],
    })  # fmt: skip
    return gpu + host


def of_xla() -> bytes:
    """A step on a GPU of which XLA has compiled all operations."""
    stats = {"kernel_details": "grid:1", "hlo_module": "a_inference_one_step_on_data", "hlo_op": "loop_fusion.3"}
    gpu = {
        "Stream #1(Compute)": [Made("loop_fusion_3", 0, 10, {**stats, "name": "adam/truediv", "tf_op": "XlaModule:"})]
    }
    return plane("/device:GPU:0", gpu)


def of_host() -> bytes:
    """A step on a host with two threads: an operation within another, one beside it, and one outside of graphs."""
    return plane("/host:CPU", {
        "python": [step(1, 0, 100), Made(f"{EAGER}Mul", 60, 10), Made(f"{EAGER}__inference_f_7", 0, 50)],
        "tf_Compute/1": [Made("while:While", 10, 40), Made("while/body/MatMul:MatMul", 20, 10)],
        "tf_Compute/2": [Made("dense/MatMul:MatMul", 30, 20), Made("ThreadpoolListener::Record", 0, 100)],
    }, begins_ns=5_000)  # fmt: skip
