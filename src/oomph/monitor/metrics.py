"""The table of metrics: everything that oomph measures, with its unit, meaning and source. Pure.

The terminal, the store, Prometheus, TensorBoard and the report take their names, units and help from this table.
Prometheus names follow https://prometheus.io/docs/practices/naming/: base units, ratios from 0 to 1, counters that end
in `_total`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scope = Literal["gpu", "host", "process", "training"]
Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Metric:
    """A metric. To add one, add a row to `METRICS` and read the value in its source."""

    scope: Scope
    """The subject of the metric: a GPU, the machine, the script's processes, or its training."""
    key: str
    """The name of the metric within its scope, as used in samples, the store and `oomph watch --json`."""
    unit: str
    """A base unit: "bytes", "seconds", "celsius", "watts", "hertz", "ratio" (0 to 1), or "" for plain counts."""
    help: str
    kind: Kind = "gauge"
    """The kind of metric. A counter only ever grows, unless the process or driver it belongs to restarts."""
    source: str = ""
    """The source of the value, such as "nvmlDeviceGetMemoryInfo" or "TFE_GetMemoryInfo"."""
    family: str = ""
    """The Prometheus name without `oomph_<scope>_`, or empty to use the key. Rows in the same family differ in their
    labels."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Fixed Prometheus labels, such as sensor="memory"."""
    hw: str = ""
    """The name in OpenTelemetry's semantic conventions for hardware metrics (`hw.*`), if there is one."""
    every_seconds: float = 1.0
    """The time, in seconds, between readings. NVML takes the driver's global lock, so slowly changing values are read
    only every 10 seconds."""

    @property
    def prometheus(self) -> str:
        """The full Prometheus name."""
        return f"oomph_{self.scope}_{self.family or self.key}"


def _gpu(key: str, unit: str, help: str, source: str, **rest: object) -> Metric:
    return Metric("gpu", key, unit, help, source=source, **rest)  # type: ignore[arg-type]


_SLOW = 10.0

METRICS: tuple[Metric, ...] = (
    _gpu("memory_used_bytes", "bytes", "Memory in use.", "nvmlDeviceGetMemoryInfo_v2", hw="hw.gpu.memory.usage"),
    _gpu("memory_total_bytes", "bytes", "Total GPU memory.", "nvmlDeviceGetMemoryInfo_v2", hw="hw.gpu.memory.limit"),
    _gpu("memory_reserved_bytes", "bytes", "Memory reserved by the driver.", "nvmlDeviceGetMemoryInfo_v2"),
    _gpu(
        "utilization_ratio",
        "ratio",
        "Share of the last second, or less, during which a kernel ran.",
        "nvmlDeviceGetUtilizationRates",
        hw="hw.gpu.utilization",
    ),
    _gpu(
        "memory_utilization_ratio",
        "ratio",
        "Share of time during which memory was accessed.",
        "nvmlDeviceGetUtilizationRates",
    ),
    _gpu(
        "temperature_celsius",
        "celsius",
        "Temperature.",
        "nvmlDeviceGetTemperature",
        labels={"sensor": "gpu"},
        hw="hw.temperature",
    ),
    _gpu(
        "memory_temperature_celsius",
        "celsius",
        "Memory temperature.",
        "NVML_FI_DEV_MEMORY_TEMP",
        family="temperature_celsius",
        labels={"sensor": "memory"},
        hw="hw.temperature",
        every_seconds=_SLOW,
    ),
    _gpu(
        "temperature_slowdown_celsius",
        "celsius",
        "Temperature at which the GPU slows down.",
        "nvmlDeviceGetTemperatureThreshold",
        family="temperature_limit_celsius",
        labels={"limit": "slowdown"},
        hw="hw.temperature.limit",
        every_seconds=_SLOW,
    ),
    _gpu(
        "temperature_shutdown_celsius",
        "celsius",
        "Temperature at which the GPU shuts down.",
        "nvmlDeviceGetTemperatureThreshold",
        family="temperature_limit_celsius",
        labels={"limit": "shutdown"},
        hw="hw.temperature.limit",
        every_seconds=_SLOW,
    ),
    _gpu("power_watts", "watts", "Power drawn.", "nvmlDeviceGetPowerUsage", hw="hw.power"),
    _gpu("power_limit_watts", "watts", "Power limit.", "nvmlDeviceGetEnforcedPowerLimit", every_seconds=_SLOW),
    _gpu(
        "energy_joules_total",
        "joules",
        "Energy used since the driver was loaded.",
        "nvmlDeviceGetTotalEnergyConsumption",
        kind="counter",
        hw="hw.energy",
        every_seconds=_SLOW,
    ),
    _gpu("sm_clock_hertz", "hertz", "Clock.", "nvmlDeviceGetClockInfo", family="clock_hertz", labels={"clock": "sm"}),
    _gpu(
        "memory_clock_hertz",
        "hertz",
        "Clock.",
        "nvmlDeviceGetClockInfo",
        family="clock_hertz",
        labels={"clock": "memory"},
        every_seconds=_SLOW,
    ),
    _gpu(
        "sm_clock_max_hertz",
        "hertz",
        "Maximum clock.",
        "nvmlDeviceGetMaxClockInfo",
        family="clock_max_hertz",
        labels={"clock": "sm"},
        every_seconds=_SLOW,
    ),
    _gpu(
        "clocks_event_reasons",
        "",
        "The reasons for the current clocks, as a bit mask.",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ),
    _gpu(
        "ecc_uncorrected_total",
        "",
        "Uncorrected memory errors since the driver was loaded.",
        "nvmlDeviceGetTotalEccErrors",
        kind="counter",
        family="ecc_errors_total",
        labels={"type": "uncorrected"},
        hw="hw.errors",
        every_seconds=_SLOW,
    ),
    _gpu(
        "ecc_corrected_total",
        "",
        "Corrected memory errors since the driver was loaded.",
        "nvmlDeviceGetTotalEccErrors",
        kind="counter",
        family="ecc_errors_total",
        labels={"type": "corrected"},
        hw="hw.errors",
        every_seconds=_SLOW,
    ),
    _gpu(
        "remapped_rows_uncorrected",
        "",
        "Memory rows replaced after uncorrected errors.",
        "nvmlDeviceGetRemappedRows",
        family="remapped_rows",
        labels={"cause": "uncorrected"},
        every_seconds=_SLOW,
    ),
    _gpu(
        "row_remap_pending",
        "",
        "1 if a row will be replaced at the next reset.",
        "nvmlDeviceGetRemappedRows",
        every_seconds=_SLOW,
    ),
    _gpu(
        "row_remap_failure", "", "1 if a row could not be replaced.", "nvmlDeviceGetRemappedRows", every_seconds=_SLOW
    ),
    _gpu(
        "pcie_replays_total",
        "",
        "PCIe transfers that were retried.",
        "nvmlDeviceGetPcieReplayCounter",
        kind="counter",
        every_seconds=_SLOW,
    ),
    _gpu("pcie_width", "", "PCIe lanes in use.", "nvmlDeviceGetCurrPcieLinkWidth", every_seconds=_SLOW),
    _gpu(
        "pcie_width_max",
        "",
        "PCIe lanes that the GPU and its slot support.",
        "nvmlDeviceGetMaxPcieLinkWidth",
        every_seconds=_SLOW,
    ),
    _gpu("pcie_generation", "", "PCIe generation in use.", "nvmlDeviceGetCurrPcieLinkGeneration", every_seconds=_SLOW),
    _gpu("fan_ratio", "ratio", "Fan speed.", "nvmlDeviceGetFanSpeed", every_seconds=_SLOW),
    _gpu(
        "recovery_action",
        "",
        "The action that NVML recommends: 0 none, 1 reset the GPU, 2 reboot, 3 drain peers, 4 drain and reset.",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        every_seconds=_SLOW,
    ),
    Metric("host", "cpu_ratio", "ratio", "Share of all cores in use.", source="/proc/stat"),
    Metric("host", "memory_used_bytes", "bytes", "Memory in use: total minus available.", source="/proc/meminfo"),
    Metric(
        "host",
        "memory_total_bytes",
        "bytes",
        "Memory of the machine, or of its cgroup if that is less.",
        source="/proc/meminfo",
    ),
    Metric("host", "swap_used_bytes", "bytes", "Swap in use.", source="/proc/meminfo", every_seconds=_SLOW),
    Metric(
        "process",
        "resident_bytes",
        "bytes",
        "Resident memory of the script's processes; what they share counts once.",
        source="/proc/PID/stat and smaps_rollup",
    ),
    Metric("process", "cpu_cores", "", "Cores kept busy by the script's processes.", source="/proc/PID/stat"),
    Metric(
        "process",
        "read_bytes_total",
        "bytes",
        "Bytes that the script's processes have read from disk.",
        kind="counter",
        source="/proc/PID/io",
        every_seconds=_SLOW,
    ),
    Metric("training", "epoch", "", "The current epoch, counted from 1.", source="Keras"),
    Metric("training", "epochs", "", "Epochs in the current fit.", source="Keras"),
    Metric("training", "step_of_epoch", "", "Steps completed in this epoch.", source="Keras"),
    Metric("training", "steps_per_epoch", "", "Steps per epoch, if known.", source="Keras"),
    Metric("training", "steps_total", "", "Steps completed.", kind="counter", source="Keras"),
    Metric(
        "training", "step_seconds_total", "seconds", "Time spent in steps.", kind="counter", source="time.monotonic"
    ),
    Metric(
        "training",
        "input_wait_seconds_total",
        "seconds",
        "Time spent waiting for the next batch.",
        kind="counter",
        source="the iterator's get_next",
    ),
    Metric(
        "training",
        "input_batches_total",
        "",
        "Batches that the iterator returned.",
        kind="counter",
        source="the iterator's get_next",
    ),
    Metric(
        "training",
        "all_reduce_seconds_total",
        "seconds",
        "Time for which a worker waits for the others: until all have a batch, and until their gradients are added up.",
        kind="counter",
        source="the strategy's exchanges",
    ),
    Metric("training", "examples_total", "", "Samples trained on.", kind="counter", source="Keras"),
    Metric("training", "loss", "", "The loss that Keras shows: for most models, the epoch's mean.", source="Keras"),
    Metric("training", "recent_loss", "", "The mean loss over the steps since the last reading.", source="Keras"),
    Metric("training", "not_finite_loss", "", "1 if the loss is NaN or infinite.", source="Keras"),
    Metric(
        "training",
        "not_finite_weights",
        "",
        "Weights that are NaN or infinite, at the last check.",
        source="tf.math.is_finite",
    ),
    Metric(
        "training",
        "allocator_in_use_bytes",
        "bytes",
        "Memory held by TensorFlow's tensors.",
        source="TFE_GetMemoryInfo",
    ),
    Metric("training", "allocator_peak_bytes", "bytes", "The peak so far.", source="TFE_GetMemoryInfo"),
    Metric(
        "training",
        "allocator_limit_bytes",
        "bytes",
        "Memory that TensorFlow may use.",
        source="the device's pool limit",
    ),
    Metric(
        "training", "micro_batch", "", "Size of the micro-batches; absent if batches are not split.", source="oomph"
    ),
)
"""All metrics."""


def of_scope(scope: Scope) -> tuple[Metric, ...]:
    """Return the metrics of one scope."""
    return tuple(metric for metric in METRICS if metric.scope == scope)
