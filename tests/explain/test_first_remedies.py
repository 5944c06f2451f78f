"""The first remedy is the one that solves this particular wording on this system."""

from __future__ import annotations

import pytest
from advised import first_remedy, remedies

from oomph.explain.diagnose import diagnose_log
from oomph.explain.render import as_text

WINDOWS = 'Traceback (most recent call last):\n  File "C:\\Users\\me\\train.py", line 1, in <module>\n'
DLL = (
    "W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library '{0}'; dlerror: {0}"
)
XLA = "InvalidArgument: Detected unsupported operations when trying to compile graph __inference_f_1 on XLA_GPU_JIT"
SYMBOL = "undefined symbol: _ZN10tensorflow12OpDefBuilder4AttrENSt7__cxx1112basic_stringIcEE"
NEGATIVE = "ValueError: Negative dimension size caused by subtracting "
NCHW = 'T=DT_FLOAT, data_format="NCHW", padding="VALID"'
SOURCE = "https://data.example/a.zip"
UNFED = (
    "InvalidArgumentError: You must feed a value for placeholder tensor 'Placeholder_2' with dtype float\n"
    "\t [[node Placeholder_2 "
)


@pytest.mark.parametrize("verb", ["open", "synchronously open", "create", "synchronously create"])
def test_hdf5_lock_error_suggests_disabling_file_locking(verb: str) -> None:
    reason = "unable to lock file, errno = 11, error message = 'Resource temporarily unavailable'"
    (first, *_) = remedies(f"BlockingIOError: [Errno 11] Unable to {verb} file ({reason})")
    assert "HDF5_USE_FILE_LOCKING=FALSE" in first


@pytest.mark.parametrize(
    ("library", "cuda"), [("cudart64_110.dll", "11.2"), ("cudart64_101.dll", "10.1"), ("cublas64_100.dll", "10.0")]
)
def test_missing_dll_gets_its_cuda_version_and_path_but_no_linux_remedy(library: str, cuda: str) -> None:
    given = remedies(DLL.format(library) + " not found\nSkipping registering GPU devices...")
    assert f"CUDA {cuda} " in given[0]
    assert "PATH" in given[0]
    assert not any("and-cuda" in remedy or "LD_LIBRARY_PATH" in remedy for remedy in given)


def test_dll_load_failure_suggests_the_visual_cpp_redistributable() -> None:
    (first, *others) = remedies(WINDOWS + "ImportError: DLL load failed while importing _pywrap_tensorflow_internal: x")
    assert "Visual C++ Redistributable" in first
    assert not any("and-cuda" in remedy or "LD_LIBRARY_PATH" in remedy for remedy in others)


def test_undefined_symbol_in_a_custom_op_suggests_rebuilding_it() -> None:
    (first, *_) = remedies(f"tensorflow.python.framework.errors_impl.NotFoundError: ./my_op.so: {SYMBOL}")
    assert first.startswith("Build ./my_op.so again")
    assert "tf.sysconfig.get_compile_flags()" in first


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/env/lib/python3.9/site-packages/tensorflow_io/core/pybinds/x.so", "Install the tensorflow_io that belongs"),
        (
            "/env/lib/python3.9/site-packages/tensorflow/python/_pywrap_tensorflow_internal.so",
            "Install TensorFlow again",
        ),
    ],
)
def test_undefined_symbol_in_a_package_names_the_package(path: str, remedy: str) -> None:
    given = remedies(f"ImportError: {path}: {SYMBOL}")
    assert remedy in given[0]
    assert not any("Build" in other for other in given[1:])


@pytest.mark.parametrize("operation", ["TensorSliceDataset", "IteratorGetNext", "ParallelMapDatasetV2"])
def test_compiled_dataset_loop_does_not_suggest_tf_data(operation: str) -> None:
    given = remedies(f"{XLA}: {operation} (No registered '{operation}' OpKernel for XLA_GPU_JIT devices)")
    assert given[0].startswith("Keep the loop over the data set out of the compiled function")
    assert not any("dataset.map" in remedy or "tf.data" in remedy for remedy in given)


@pytest.mark.parametrize("status", ["CUDA_ERROR_STUB_LIBRARY: CUDA driver is a stub library", "CUresult(-1)"])
def test_libcuda_stub_error_suggests_fixing_the_library_path(status: str) -> None:
    given = remedies(f"E cuda_driver.cc:265] failed call to cuInit: {status}")
    assert "stubs" in given[0]
    assert "LD_LIBRARY_PATH" in given[0]


@pytest.mark.parametrize(
    "words",
    [
        "failed call to cuInit: CUDA_ERROR_SYSTEM_NOT_READY: system not yet initialized",
        "Check failed: CUDA_SUCCESS == dynload::cuInit(0) (0 vs. 802)",
    ],
)
def test_system_not_ready_error_suggests_the_fabric_manager(words: str) -> None:
    assert "nvidia-fabricmanager" in first_remedy(f"E cuda_driver.cc:265] {words}")


@pytest.mark.parametrize(
    "log",
    [
        "F tensorflow/core/platform/default/env.cc:73] Check failed: ret == 0 (11 vs. 0)Thread creation via "
        "pthread_create() failed.\nAborted (core dumped)",
        "F tensorflow/core/platform/cpu_feature_guard.cc:38] The TensorFlow library was compiled to use AVX "
        "instructions, but these aren't available on your machine.\nAborted (core dumped)",
        "F tensorflow/core/framework/op.cc:55] Check failed: Register(op) is OK (x)\nAborted (core dumped)",
    ],
)
def test_check_failure_at_startup_does_not_suggest_a_restart(log: str) -> None:
    assert "Start again" not in first_remedy(log)


@pytest.mark.parametrize(
    ("system", "remedy"),
    [
        ("", "sudo ubuntu-drivers install"),
        ("Linux 5.15.1-microsoft-standard-WSL2\n", "/usr/lib/wsl/lib"),
        ('  File "/content/train.py", line 1\n', "Runtime > Change runtime type"),
        ("root@3f2a9c1b7d4e:/workspace# python train.py\n", "docker run --gpus all"),
        ("srun: job 12 has been allocated resources\n", "--gres=gpu:1"),
    ],
)
def test_missing_driver_gets_the_remedy_for_the_logged_system(system: str, remedy: str) -> None:
    log = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
    assert remedy in first_remedy(system + log)


def test_windows_log_gets_no_oomph_run_remedy() -> None:
    oom = "ResourceExhaustedError: OOM when allocating tensor with shape[64,224,224,64] and type float on "
    given = remedies(f"{WINDOWS}{oom}/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc")
    assert given
    assert not any("oomph run" in remedy for remedy in given)


LOSS = "ValueError: Shapes {} and {} are incompatible"
LAYER = 'ValueError: Input 0 of layer "model" is incompatible with the layer: '
LABEL = (
    "InvalidArgumentError: Received a label value of {} which is outside the valid range of [0, {}).  Label values: 0"
)
NO_PACKAGE = "ERROR: Could not find a version that satisfies the requirement {0} (from versions: {1})\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LOSS.format("(None, 1)", "(None, 10)"), 'the last layer has 10 units: compile with loss="sparse_'),
        (LOSS.format("(None, 10)", "(None, 1)"), "make it Dense(10, "),
        (LOSS.format("(None, 3)", "(None, 5)"), "3 columns, but the last layer has 5 units: make it Dense(3)"),
        (LOSS.format("(None, 4)", "(None, 62, 62, 4)"), "GlobalAveragePooling2D() before the last Dense"),
        (LOSS.format("(8, 64, 64, 1)", "(8, 64, 64, 21)"), "to_categorical(mask, 21)"),
        (
            "ValueError: Arguments `target` and `output` must have the same shape. Received: target.shape=(None, 1), "
            "output.shape=(None, 10)",
            'the last layer has 10 units: compile with loss="sparse_',
        ),
        (
            "ValueError: `logits` and `labels` must have the same shape, received ((None, 2) vs (None, 1)).",
            'Dense(1, activation="sigmoid")',
        ),
        (
            "InvalidArgumentError: logits and labels must have the same first dimension, got logits shape [32,10] and "
            "labels shape [320]",
            'loss="categorical_crossentropy"',
        ),
        (
            "InvalidArgumentError: logits and labels must have the same first dimension, got logits shape [1600,10] "
            "and labels shape [32]",
            "put Flatten()",
        ),
        ("InvalidArgumentError: Incompatible shapes: [128] vs [96]", "drop_remainder=True"),
        ("InvalidArgumentError: Incompatible shapes: [8,64,64,1] vs [8,64,64,3]", "Only the channels differ, 1 and 3"),
        (f"{LAYER}expected shape=(None, 224, 224, 3), found shape=(224, 224, 3)", "predict(x[None])"),
        (f"{LAYER}expected shape=(None, 224, 224, 3), found shape=(32, 224, 3)", "predict(x[None])"),
        (f"{LAYER}expected shape=(None, 224, 224, 3), found shape=(None, 180, 180, 3)", "resize(x, (224, 224))"),
        (f"{LAYER}expected shape=(None, 28, 28, 3), found shape=(None, None, 28, 28, 3)", "batched twice"),
        (f"{LAYER}expected ndim=3, found ndim=2. Full shape received: (None, 64)", "return_sequences=True"),
        (LABEL.format(10, 10), "subtract 1 if the labels count from 1"),
        (LABEL.format(-1, 10), "ignore_class=-1"),
        (LABEL.format(255, 21), "mask // 255"),
        (LABEL.format(1, 1), "binary_crossentropy"),
        (LABEL.format(67, 1), "numpy.unique of the training and the validation labels"),
        (LABEL.format(12, 10), "The last layer has 10 units, but a label is 12"),
        ("InvalidArgumentError: indices[3,7] = 5000 is not in [0, 5000)", "input_dim=5000 + 1"),
        (NO_PACKAGE.format("tensorflow~=1.15.0", "0.12.1, 1.0.0, 1.14.0, 2.0.0b1"), "install --upgrade pip"),
        (NO_PACKAGE.format("tensorflow==1.15", "2.2.0, 2.3.0"), "conda create -n tf python=3.7 "),
        (NO_PACKAGE.format("tensorflow==2.10.0", "2.12.0, 2.13.0"), "conda create -n tf python=3.10 "),
        (NO_PACKAGE.format("tensorflow", "none"), "too new or of 32 bits"),
    ],
)
def test_first_remedy_depends_on_shapes_labels_and_versions_in_the_log(log: str, words: str) -> None:
    assert words in first_remedy(log)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "ImportError: cannot import name 'Adam' from 'keras.optimizers' (x.py)",
            "tensorflow.keras.optimizers import Adam",
        ),
        ("ImportError: cannot import name 'np_utils' from 'keras.utils' (x.py)", "import to_categorical"),
        ("ModuleNotFoundError: No module named 'keras.wrappers'", "pip install scikeras"),
        ("ImportError: cannot import name 'keras' from 'tensorflow' (unknown location)", "Install TensorFlow again"),
        (
            "ImportError: cannot import name 'dtensor' from 'tensorflow.compat.v2.experimental' (x.py)",
            "different versions",
        ),
        ("ValueError: Unknown layer: KerasLayer", "hub.KerasLayer"),
        ("ValueError: Unknown initializer: GlorotUniform", "from tensorflow.keras.models import load_model"),
        ("ValueError: Unknown metric function: f1_score", 'custom_objects={"f1_score": f1_score}'),
        ("ValueError: Unrecognized keyword arguments passed to DepthwiseConv2D: {'groups': 1}", "tf_keras.models"),
        (
            "Keras 3 only supports V3 `.keras` and `.weights.h5` files: filepath=models/checkpoint",
            "Load the weights with",
        ),
        (
            "AttributeError: module 'tensorflow._api.v2.train' has no attribute 'AdamOptimizer'",
            "tf.compat.v1.train.Adam",
        ),
        (
            "NotFoundError: Op type not registered 'BatchMatMulV2' in binary running on box",
            "as new as the one that saved it",
        ),
        (
            "ValueError: No gradients provided for any variable, check your graph for ops that do not support "
            "gradients, between variables [x] and loss Tensor(y).",
            "pass the model's output to the loss function",
        ),
        (
            r"NOT_FOUND: Failed to create a NewWriteableFile: ./models\ck-0_temp\part-00000-of-00001.tempstate1 :",
            "short, absolute path",
        ),
        (
            "ValueError: You are trying to load a weight file containing 16 layers into a model with 0 layers.",
            "Build the model",
        ),
        ("W0000 gpu_device.cc:2365] Cannot dlopen some GPU libraries. Please make sure", "/nvidia/*/lib"),
        (
            "kernel driver does not appear to be running on this host (login05.example.org): /proc/driver",
            "login05.example.org is a login node",
        ),
        ("InvalidArgumentError: assertion failed: [predictions must be >= 0] [Condition x >= y]", "sigmoid or softmax"),
    ],
)
def test_first_remedy_depends_on_moved_names_and_missing_objects(log: str, words: str) -> None:
    assert words in first_remedy(log)


IN_SCRIPT = 'Traceback (most recent call last):\n  File "train.py", line 12, in main\n    go()\n'
IN_KERAS = f'{IN_SCRIPT}  File "/env/lib/python3.11/site-packages/keras/src/models/model.py", line 5, in fit\n    f()\n'


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("KeyError: 'val_acc'", "Write val_accuracy in place of val_acc"),
        (f"{IN_SCRIPT}TypeError: build() got an unexpected keyword argument 'zoom'", "build does not accept zoom"),
        (f"{IN_KERAS}RuntimeError: You must compile your model before training/testing.", "Call model.compile("),
        (f"{IN_KERAS}AttributeError: 'Tensor' object has no attribute 'numpy'", "compile(run_eagerly=True)"),
    ],
)
def test_script_error_remedy_uses_names_and_line_of_its_traceback(log: str, words: str) -> None:
    assert words in first_remedy(log)


@pytest.mark.parametrize(
    "error",
    [
        "NameError: name 'steps' is not defined",
        "KeyError: 'rate'",
        "IndexError: list index out of range",
    ],
)
@pytest.mark.parametrize("head", [IN_SCRIPT, IN_SCRIPT.partition("\n")[2], ""], ids=["whole", "no header", "alone"])
def test_plain_python_error_gets_its_line_and_no_advice(head: str, error: str) -> None:
    found = diagnose_log(f"{head}{error}".encode())
    assert [(each.code, each.remedies) for each in found] == [("PYT001", ())]
    said = " ".join(as_text(found, "train.log").split())
    assert ("train.py:12 in main" in said) == bool(head)


LOCAL = "on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
NO_PTXAS = "W asm_compiler.cc:85] Couldn't get ptxas version string: INTERNAL: Couldn't invoke ptxas --version\n"
NO_LIBDEVICE = "W nvptx_helper.cc:56] Can't find libdevice directory ${CUDA_DIR}/nvvm/libdevice.\n"
SOLVER = "W dso_loader.cc:60] Could not load dynamic library 'libcusolver.so.10'; dlerror: libcusolver.so.10\n"
LAYERS = "ValueError: You are trying to load a weight file containing {} layers into a model with {} layers."
AXIS = 'ValueError: Input 0 of layer "d" is incompatible with the layer: expected axis -1 of input shape to have value '
TABLE = "DataLossError: Unable to open table file out/best: Failed precondition: out/best; Is a directory: perhaps your"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (LAYERS.format(47, 33), "the file belongs to a different model"),
        (LAYERS.format(16, 18), "load the layers that match by name"),
        (
            "Layer count mismatch when loading weights from file. Model expected 49 layers, found 18 saved",
            "a different model",
        ),
        (
            "ValueError: cannot reshape array of size 3920 into shape (4,20)",
            "7 x 7 for each: reshape to (4, 20 * 7 * 7)",
        ),
        ("ValueError: cannot reshape array of size 100 into shape (3,20)", "use -1 for the number of samples"),
        (AXIS + "16384, but received input with shape (None, 65536)", "about 2.0 times larger"),
        (AXIS + "20, but received input with shape (None, 80)", "build it with input_shape=(80,)"),
        (f"ResourceExhaustedError: OOM when allocating tensor with shape[9,8] and type float {LOCAL}", "[9,8]"),
        (f"ResourceExhaustedError: OOM when allocating tensor with shape[9,8] and type float {LOCAL}", "smaller batch"),
        (NO_PTXAS + NO_LIBDEVICE, "both ptxas and libdevice"),
        (NO_LIBDEVICE, "where XLA looks for it"),
        (SOLVER, "CUDA 11.0"),
        (SOLVER.replace("cusolver", "cublas") + SOLVER, "CUDA 10.1"),
        (TABLE, "out/best is a directory: give the prefix"),
        (
            "InvalidArgumentError: indices[0] = 0 is not in [0, 0)\n\t [[{{node GatherV2_4}}]]",
            "is looked up in is empty",
        ),
        ("NotFoundError: /data/fsns/train", "/data/fsns/train was not found"),
        ('KeyError: "Couldn\'t find field google.protobuf.FileOptions.x"', "another version of protobuf"),
        ("AlreadyExistsError: Another metric with the same name already exists.", "Keras of TensorFlow's own version"),
        (
            "AttributeError: module 'tensorflow' has no attribute 'enable_eager_execution'",
            "Leave tf.enable_eager_execution out",
        ),
        ("AttributeError: module 'tensorflow' has no attribute 'mul'", "tf.multiply for mul"),
        (NEGATIVE + "3 from 1 for 'conv' (op: 'Conv2D') with input shapes: [?,1,96,48], [3,3,48,8].", "channels last"),
        (NEGATIVE + "3 from 1 for 'conv' (op: 'Conv2D') with input shapes: [?,1,1,48], [3,3,48,8].", "larger input"),
        (
            NEGATIVE + f"2 from 1 for '{{{{node p}}}} = MaxPool[{NCHW}](x)' with input shapes: [?,96,48,1].",
            "channels_last",
        ),
        (NEGATIVE + "5 from 4 for 'pool_1/MaxPool'", "larger input"),
        ("AttributeError: 'Model' object has no attribute '_feed_sizes'", "versions of TensorFlow and Keras"),
        ("AttributeError: 'Network' object has no attribute '_made'", "_made of a Network is Keras's own"),
        ("NotFoundError: Key head/bias not found in checkpoint", "empty directory (model_dir, train_dir)"),
        (f"NonMatchingChecksumError: Artifact {SOURCE}, has wrong checksum:", f"{SOURCE} was replaced"),
        (f"NonMatchingChecksumError: Artifact {SOURCE}, downloaded to /d/a.zip, has wrong checksum:", SOURCE),
        ("AttributeError: module 'tensorflow' has no attribute 'ensure_shape'", "does not have ensure_shape yet"),
        (
            "NotImplementedError: Cannot convert a symbolic Tensor (grid/meshgrid:0) to a numpy array.",
            "NumPy below 1.20",
        ),
        ("TypeError: object of type <class 'numpy.float32'> cannot be safely interpreted as an integer.", "int(n)"),
        ("ImportError: libcublas.so.7.5: cannot open shared object file: No such file", "CUDA 7, for which"),
        ("WARNING:tensorflow:Your input ran out of data; interrupting training.", "number of samples // batch size"),
        (UNFED + "defined at train.py:3", "Feed Placeholder_2 as well"),
    ],
)
def test_first_remedy_depends_on_the_numbers_and_context_of_a_line(log: str, words: str) -> None:
    assert words in first_remedy(log)
