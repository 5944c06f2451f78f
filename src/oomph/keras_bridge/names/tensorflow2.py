"""The undocumented names in TensorFlow 2 that oomph reads, sets or replaces.

The following files run before TensorFlow is imported, and contain such names themselves: `protocol/entropy.py`,
`inject/hook.py`, `script/opened_files.py` and `script/unguarded_training.py`.
"""

from __future__ import annotations

from oomph.keras_bridge.names.row import Attribute, Feature, Global

_OPS = "tensorflow.python.framework.ops"
_DATASETS = "tensorflow.python.data.ops.dataset_ops"
_SCRIPT_OPS = "tensorflow.python.ops.script_ops"
_DATA_FLOW = "tensorflow.python.ops.gen_data_flow_ops"
_ITERATORS = "tensorflow.python.data.ops.iterator_ops"
_FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_STRATEGIES = "tensorflow.python.distribute.distribute_lib"
_COLLECTIVES = "tensorflow.python.distribute.cross_device_ops"
_INPUT = "tensorflow.python.distribute.input_lib"
_STEP, _RESUME = Feature.EXACT_STEP, Feature.RESUME


def _random(feature: Feature, module: str, *names: str) -> tuple[Global, ...]:
    return tuple(Global(f"tensorflow.python.ops.{module}", name, feature) for name in names)


class TensorFlow2:
    """TensorFlow 2.17 and newer; for Keras 2, TensorFlow 2.12 and newer."""

    # -- graphs and what is traced into them
    default_graph = Global(_OPS, "get_default_graph", _STEP | Feature.ALL_REDUCE_TIME)
    func_graph = Global("tensorflow.python.framework.func_graph", "FuncGraph", _STEP)
    add_control_input = Attribute(_OPS, "_add_control_input", _STEP)
    update_input = Attribute(_OPS, "_update_input", _STEP)
    strategy_stack = Attribute(_OPS, "_distribution_strategy_stack", _STEP | _RESUME)
    variable_creators = Attribute(_OPS, "_variable_creator_stack", _STEP | _RESUME)
    handle_data = Attribute("tensorflow.python.ops.handle_data_util", "_handle_data", _STEP)
    read_only_inputs = Global(
        "tensorflow.python.framework.auto_control_deps_utils", "get_read_only_resource_input_indices_graph", _STEP
    )
    import_graph_def = Global("tensorflow.python.framework.importer", "import_graph_def", _STEP)
    constant_value = Global("tensorflow.python.framework.tensor_util", "constant_value", _STEP)
    constant_value_as_shape = Global("tensorflow.python.framework.tensor_util", "constant_value_as_shape", _STEP)
    read_variable = Global("tensorflow.python.ops.gen_resource_variable_ops", "read_variable_op", _STEP)
    assign_variable = Global("tensorflow.python.ops.gen_resource_variable_ops", "assign_variable_op", _STEP)
    resource_variable = Global(
        "tensorflow.python.ops.resource_variable_ops",
        "ResourceVariable",
        _STEP | Feature.INPUT_WAIT | Feature.ALL_REDUCE_TIME,
    )
    stage = Global(_DATA_FLOW, "stage", _STEP)
    stage_size = Global(_DATA_FLOW, "stage_size", _STEP)
    unstage = Global(_DATA_FLOW, "unstage", _STEP)
    stage_clear = Global(_DATA_FLOW, "stage_clear", _STEP)
    # -- functions
    function = Global(_FUNCTION, "Function", Feature.CUSTOM_LOOPS | Feature.NO_XLA)
    python_function = Attribute(_FUNCTION, "_python_function", Feature.OBJECTS)
    wrapper_in_graph = Attribute(_SCRIPT_OPS, "ag_dnc_wrapper__", Feature.OBJECTS, beside="ag_dnc_wrapper__")
    """Set on a user's function each time a `tf.numpy_function` that calls it is traced."""
    jit_compile = Attribute(_FUNCTION, "_jit_compile", _STEP | Feature.NO_XLA)
    traces = Attribute(_FUNCTION, "_list_all_concrete_functions", _RESUME)
    create_concrete_function = Global(
        "tensorflow.python.eager.polymorphic_function.tracing_compilation",
        "_create_concrete_function",
        Feature.TRACING,
    )
    stack_filter = Global("tensorflow.python.util.tf_stack", "StackTraceFilter", Feature.TRACING)
    control_status = Global("tensorflow.python.autograph.core.ag_ctx", "ControlStatusCtx", _STEP)
    conversion_status = Global("tensorflow.python.autograph.core.ag_ctx", "Status", _STEP)
    graph_functions = Attribute("tensorflow.python.framework.ops", "_functions", Feature.PLANNING)
    # -- data
    dataset_inputs = Attribute(_DATASETS, "_inputs", _RESUME)
    dataset_functions = Attribute(_DATASETS, "_functions", _RESUME)
    reshuffles = Attribute("tensorflow.python.data.ops.shuffle_op", "_reshuffle_each_iteration", _RESUME)
    cache_file = Attribute("tensorflow.python.data.ops.cache_op", "_filename", _RESUME)
    source_tensors = Attribute("tensorflow.python.data.ops.from_tensor_slices_op", "_tensors", Feature.CHECKING)
    buffer_size = Attribute("tensorflow.python.data.ops.prefetch_op", "_buffer_size", Feature.CHECKING)
    dataset_batch_size = Attribute("tensorflow.python.data.ops.batch_op", "_batch_size", Feature.CHECKING)
    dataset_count = Attribute("tensorflow.python.data.ops.take_op", "_count", Feature.CHECKING)
    parallel_calls = Attribute("tensorflow.python.data.ops.map_op", "_num_parallel_calls", Feature.CHECKING)
    shuffle_seed = Attribute("tensorflow.python.data.ops.shuffle_op", "_seed", Feature.CHECKING)
    shuffle_seed2 = Attribute("tensorflow.python.data.ops.shuffle_op", "_seed2", Feature.CHECKING)
    cycle_length = Attribute("tensorflow.python.data.ops.interleave_op", "_cycle_length", Feature.CHECKING)
    block_length = Attribute("tensorflow.python.data.ops.interleave_op", "_block_length", Feature.CHECKING)
    dataset_files = Attribute("tensorflow.python.data.ops.readers", "_filenames", Feature.CHECKING)
    map_function = Attribute("tensorflow.python.data.ops.map_op", "_map_func", Feature.CHECKING)
    filter_predicate = Attribute("tensorflow.python.data.ops.filter_op", "_predicate", Feature.CHECKING)
    drop_remainder = Attribute("tensorflow.python.data.ops.batch_op", "_drop_remainder", Feature.CHECKING)
    structured_function = Attribute(
        "tensorflow.python.data.ops.structured_function", "_func", Feature.CHECKING | Feature.OBJECTS
    )
    original_dataset = Attribute(_INPUT, "_original_dataset", _RESUME)
    """The dataset that a distributed one divides among replicas and workers."""
    input_options = Attribute(_INPUT, "_options", Feature.SEVERAL_WORKERS)
    iterators_of_workers = Attribute(_INPUT, "_iterators", Feature.SEVERAL_WORKERS)
    generator_state = Attribute(_DATASETS, "_GeneratorState", Feature.OBJECTS)
    generator = Attribute(_DATASETS, "_generator", Feature.OBJECTS)
    dataset_of_iterator = Attribute(_ITERATORS, "_dataset", _RESUME)
    iterator_spec = Attribute(_ITERATORS, "_type_spec", _STEP)
    element_spec = Attribute("tensorflow.python.data.ops.optional_ops", "_element_spec", _STEP)
    spec_of_each_replica = Attribute("tensorflow.python.distribute.values", "_value_specs", _RESUME)
    owned_iterator = Global(_ITERATORS, "OwnedIterator", Feature.INPUT_WAIT)
    worker_iterator = Global(_INPUT, "_SingleWorkerDatasetIteratorBase", Feature.INPUT_WAIT)
    agreement_on_data = Global(_INPUT, "_calculate_replicas_with_values", Feature.ALL_REDUCE_TIME)
    is_deterministic = Global(
        "tensorflow.python.framework.config", "is_op_determinism_enabled", Feature.INPUT_WAIT | Feature.ALL_REDUCE_TIME
    )
    queue = Global("tensorflow.python.ops.data_flow_ops", "QueueBase", Feature.OBJECTS)
    hash_table = Global("tensorflow.python.ops.lookup_ops", "MutableHashTable", Feature.OBJECTS)
    dense_hash_table = Global("tensorflow.python.ops.lookup_ops", "DenseHashTable", Feature.OBJECTS)
    # -- strategies
    default_strategy = Global(_STRATEGIES, "_DefaultDistributionStrategy", _STEP)
    extension_of_default_strategy = Global(_STRATEGIES, "_DefaultDistributionExtended", _STEP)
    replica_thread = Global(
        "tensorflow.python.distribute.mirrored_run", "_MirroredReplicaThread", Feature.ERRORS_OUTSIDE
    )
    collective_all_reduce = Global(_COLLECTIVES, "CollectiveAllReduce", Feature.ALL_REDUCE_TIME)
    all_reduce_of_a_replica = Attribute(_COLLECTIVES, "_all_reduce", Feature.ALL_REDUCE_TIME)
    is_in_xla = Global("tensorflow.python.ops.control_flow_util", "GraphOrParentsInXlaContext", Feature.ALL_REDUCE_TIME)
    collective_keys = Attribute(
        "tensorflow.python.distribute.collective_all_reduce_strategy", "_collective_keys", Feature.SEVERAL_WORKERS
    )
    collective_numbers = Attribute(
        "tensorflow.python.distribute.cross_device_utils", "_instance_key_table", Feature.SEVERAL_WORKERS
    )
    late_captures = Attribute(
        "tensorflow.python.framework.func_graph", "deferred_internal_captures", Feature.SEVERAL_WORKERS
    )
    # -- the runtime
    status_to_exception = Global("tensorflow.python.eager.core", "_status_to_exception", Feature.ERRORS_OUTSIDE)
    context = Global("tensorflow.python.eager.context", "context", _RESUME | Feature.MEMORY_LIMIT)
    context_handle = Attribute("tensorflow.python.eager.context", "_context_handle", Feature.MEMORY_LIMIT)
    list_devices = Global("tensorflow.python.pywrap_tfe", "TFE_ContextListDevices", Feature.MEMORY_LIMIT)
    session_library = Global("tensorflow.python.client", "pywrap_tf_session", Feature.MEMORY_LIMIT)
    # -- random numbers
    eager_generator = Attribute("tensorflow.python.eager.context", "_rng", _RESUME)
    global_seed = Global("tensorflow.python.eager.context", "global_seed", _RESUME)
    global_generator = Global("tensorflow.python.ops.stateful_random_ops", "global_generator", _RESUME)
    stateful_random_ops = _random(
        _STEP | Feature.SEEDS, "gen_random_ops",
        "random_standard_normal", "truncated_normal", "random_uniform", "random_uniform_int", "random_shuffle",
    )  # fmt: skip
    stateless_random_ops = _random(
        _STEP, "gen_stateless_random_ops_v2",
        "stateless_random_uniform_v2", "stateless_random_uniform_int_v2", "stateless_random_uniform_full_int_v2",
        "stateless_random_normal_v2", "stateless_truncated_normal_v2",
    )  # fmt: skip
    stateless_shuffle = Global("tensorflow.python.ops.gen_stateless_random_ops_v2", "stateless_shuffle", _STEP)


TENSORFLOW = TensorFlow2
"""The names in the TensorFlow version that the script has imported."""
