"""The classes, words, operations and paths in TensorFlow's errors, and the pages that they suggest.

Collected from the messages in TensorFlow 2.21's libraries, from errors raised by Keras 3.15, and from reports about old
versions.
"""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping

# The class of the error (without "Error") → the faults that it usually means.
CLASSES: Mapping[str, Mapping[str, float]] = {
    "InvalidArgument": {"shape-mismatch": 0.24, "dtype-mismatch": 0.16, "input-pipeline": 0.12},
    "Internal": {"kernel-launch-failure": 0.24, "xla-compile-failure": 0.14, "cuda-library-failure": 0.12},
    "Unknown": {"input-pipeline": 0.22, "cudnn-init-failed": 0.18, "kernel-launch-failure": 0.12},
    "NotFound": {"input-pipeline": 0.22, "checkpoint-failure": 0.2, "operation-not-registered": 0.18},
    "FailedPrecondition": {"uninitialised-variable": 0.24, "input-pipeline": 0.16, "checkpoint-failure": 0.12},
    "Unimplemented": {"operation-not-registered": 0.26, "dtype-mismatch": 0.16, "device-placement": 0.14},
    "DataLoss": {"corrupt-data": 0.4, "checkpoint-failure": 0.2},
    "Unavailable": {"worker-lost": 0.4, "nccl-failure": 0.15},
    "Aborted": {"worker-lost": 0.35, "hang": 0.16, "nccl-failure": 0.15},
    "DeadlineExceeded": {"hang": 0.3, "worker-lost": 0.28},
    "Cancelled": {"worker-lost": 0.24, "input-pipeline": 0.2},
    "OutOfRange": {"input-pipeline": 0.3, "label-out-of-range": 0.2},
    "PermissionDenied": {"checkpoint-failure": 0.22, "input-pipeline": 0.2},
    "Unauthenticated": {"input-pipeline": 0.25, "checkpoint-failure": 0.2},
    "AlreadyExists": {"uninitialised-variable": 0.2, "checkpoint-failure": 0.18},
    "Op": {"checkpoint-failure": 0.2, "input-pipeline": 0.2},
    "HorovodInternal": {"worker-lost": 0.35, "nccl-failure": 0.3},
    "XlaRuntime": {"kernel-launch-failure": 0.24, "xla-compile-failure": 0.24},
    # plain Python errors, if TensorFlow or Keras raised them
    "Value": {"shape-mismatch": 0.12, "dtype-mismatch": 0.1},
    "Type": {"dtype-mismatch": 0.12, "keras-version-mismatch": 0.1},
    "Attribute": {"keras-version-mismatch": 0.3, "removed-api": 0.2},
    "Import": {"binary-incompatibility": 0.3, "broken-installation": 0.25, "keras-version-mismatch": 0.2},
    "ModuleNotFound": {"broken-installation": 0.3, "keras-version-mismatch": 0.25, "removed-api": 0.2},
    "NotImplemented": {"operation-not-registered": 0.05},
    "OS": {"checkpoint-failure": 0.2, "input-pipeline": 0.18},
    "FileNotFound": {"input-pipeline": 0.22, "checkpoint-failure": 0.2},
    "Syntax": {"broken-installation": 0.45, "binary-incompatibility": 0.2},
    "StopIteration": {"input-pipeline": 0.4},
    "UnicodeDecode": {"corrupt-data": 0.25, "checkpoint-failure": 0.2},
}

# The page → words in the message that hardly any other page uses.
WORDS: Mapping[str, str] = {
    "shape-mismatch": r"(?:tensor)?shapes?|ranks?|dimension(?:s|al|ality)?|dims?|ndims?|[0-9n]-?[dD]|scalars?|vectors?|matri(?:x|ces)"
    r"|broadcast\w*|concat\w*|reshape\w*|cardinality|axis\d?|axes|input\(s\)|input tensors",
    "dtype-mismatch": r"dtypes?|data types?|DT_[A-Z]\w+|b?float\d+|u?int\d+|complex\d+|cast|feed type",
    "label-out-of-range": r"labels?|class(?:es)? id|out of (?:range|bounds?)|vocabulary|num_classes|segment ids?",
    "corrupt-data": r"corrupt\w*|truncated|decod\w+|jpe?g|png|gif|bmp|wav|webp|audio|image data|pars(?:e|ed|ing)|serialized"
    r"|crc\w*|checksum|(?:de|un)compress\w*|inflate|snappy|zlib|utf-?8|base64|malformed|incomplete|bad magic|proto",
    "input-pipeline": r"iterators?|datasets?|generators?|queues?|py_?func\w*|readers?|glob|s3|gcs|hdfs|https?|bucket|curl"
    r"|prefetch\w*|shuffl\w+|end of (?:sequence|file)|map_func|is a directory|no such file",
    "checkpoint-failure": r"checkpoints?|ckpt|restor\w+|tensorbundle|saver|saved_?model|saving|hdf5|h5py?|weights file|pbtxt",
    "uninitialised-variable": r"(?:un|not )?initiali[sz]ed|variables?|lookup table|resource handle",
    "operation-not-registered": r"nhwc|nchw|ndhwc|ncdhw|not implemented|implementation|registered|data_format|grouped"
    r"|fusion|opkernel|gradient registry|nodedef|op type|custom op",
    "device-placement": r"on (?:device type )?(?:the )?[cg]pus?|coloca\w+|placement|device type",
    "kernel-launch-failure": r"launch\w*|cuda\w*|cu[A-Z]\w+|gpu\w*|memcpy\w*|memset\w*|synchroni[sz]\w+|thunk",
    "cudnn-execution-failed": r"cudnn\w*|dnn|convol\w+|conv\d?d?|algorithms?|rnn\w*|lstm|gru|autotun\w+|batchnorm\w*|scratch",
    "cublas-execution-failed": r"cublas\w*|blas\w*|x?[sdcz]?gemm\w*|[sdcz]?gemv|trsm",
    "cuda-library-failure": r"cufft\w*|fft\w*|cusolver\w*|cusparse\w*|curand\w*|svd|csr\w*|getrf|cupti",
    "xla-compile-failure": r"xla\w*|hlo\w*|mlir|llvm|ptxas|nvptx|compil\w+|jit\w*|triton|stablehlo|tf2xla",
    "worker-lost": r"rpc|grpc|workers?|collectives?|coordination|barrier|peers?|connect\w*|sockets?|remote|heartbeats?"
    r"|session handle|step_?id|preempt\w*|horovod|allreduce|restarted|incarnation|task:\d+|other ranks?",
    "nccl-failure": r"nccl\w*|allgather|all-?reduce|communicator|infiniband|rdma",
    "hang": r"deadline|timed? ?out|timeout|stall\w*|hung|hang",
    "device-oom": r"out of memory|allocat\w+|oom",
    "nan-loss": r"nans?|infs?|infinite|finite|invertible|decomposition|singular|diverg\w+|positive definite|converge\w*",
    "no-gradients": r"gradients?|differentia\w+",
    "keras-version-mismatch": r"keras [23](?:\.x)?|tf[_-]keras|deseriali[sz]\w+|from_config|get_config|custom_objects?"
    r"|legacy|unexpected keyword argument|kerastensor|keras_?history|past layer metadata|attribute '(?:_?keras\w*|decode)",
    "removed-api": r"deprecated|removed|no longer|contrib|has no attribute|eager execution|not available|placeholder",
    "binary-incompatibility": r"symbol not found|undefined symbol|dll|abi|glibc\w*|libstdc\w*|compiled against|numpy\.core"
    r"|protobuf|descriptors?|shared object|binary|initialization routine",
    "strategy-not-supported": r"strategy|strategies|replicas?|replica context|mirrored\w*|cross-replica|parameter server",
    "rocm-failure": r"rocm\w*|hip[A-Z]\w+|miopen\w*|rocblas\w*|amdgpu|gfx\d+",
}

# The page → words in the message that several pages use.
COMMON_WORDS: Mapping[str, str] = {
    "shape-mismatch": r"sizes?|lengths?|elements?|columns?|rows?|strides?|channels?|depth|ragged|padding|perm|squeeze"
    r"|slices?|begin|ksize|filters?|windows?|square|inputs?",
    "dtype-mismatch": r"types?|strings?|bool(?:ean)?|half|double|convert(?:ed|ing|ible)?|numpy|integers?",
    "label-out-of-range": r"ind(?:ex|ices)|ids?|class(?:es)?|segments?",
    "corrupt-data": r"images?|records?|magic|bytes|header|content",
    "input-pipeline": r"files?|filenames?|director(?:y|ies)|paths?|batch_size|elements?",
    "checkpoint-failure": r"saved?|weights|restore",
    "uninitialised-variable": r"resources?|tables?|containers?|handles?",
    "operation-not-registered": r"kernels?|ops?|attrs?|library|supported",
    "device-placement": r"devices?",
    "kernel-launch-failure": r"streams?|events?|kernels?|blocks?",
    "keras-version-mismatch": r"layers?|config|optimizers?|symbolic|keras|positional arguments?",
    "worker-lost": r"tasks?|jobs?|servers?|hosts?",
    "hang": r"waiting",
    "binary-incompatibility": r"symbol|so|version",
    "xla-compile-failure": r"clusters?|lowering",
}

# The page → the operations whose failure suggests it.
OPERATIONS: Mapping[str, str] = {
    "input-pipeline": r"(?:Eager)?PyFunc\w*|Iterator\w*|\w*Dataset\w*|Reader\w*|ReadFile|MatchingFiles|Queue\w*|FIFOQueue\w*",
    "corrupt-data": r"Decode\w+|Parse\w*Example\w*|ParseTensor|ExtractJpegShape|TFRecord\w*",
    "checkpoint-failure": r"(?:Save|Restore|MergeV2)\w*|ShardedFilename|\w*save/\w*",
    "label-out-of-range": r"(?:Resource)?(?:Gather|Scatter)\w*|SparseSoftmax\w*|OneHot|\w*[Ee]mbedding\w*|Segment\w*",
    "cudnn-execution-failed": r"Cudnn\w*|(?:Depthwise|Fused)?Conv\d?D?\w*|FusedBatchNorm\w*|(?:Max|Avg)Pool\w*",
    "cublas-execution-failed": r"\w*MatMul\w*|Einsum",
    "cuda-library-failure": r"I?R?FFT\w*|Cholesky\w*|Qr|Svd|MatrixInverse|MatrixSolve\w*|SelfAdjointEig\w*",
    "dtype-mismatch": r"Cast|StringToNumber|Bitcast",
    "worker-lost": r"Collective\w*|Horovod\w*|_Recv|_Send",
    "nccl-failure": r"Nccl\w*",
    "shape-mismatch": r"Reshape\w*|Concat\w*|Add\w*|Sub|Mul|Pack|Stack|Squeeze|Transpose|StridedSlice|Slice|Tile|Split\w*",
    "xla-compile-failure": r"Xla\w*|xla\w*",
}
# The page → the paths in the message that suggest it.
PATHS: Mapping[str, str] = {
    "checkpoint-failure": r"(?i:\S*(?:ckpt|checkpoint|saved_?model|\.h5\b|\.hdf5|\.keras\b|\.pb\b|variables/|\.index\b|\.data-\d{5}-of|tempstate)\S*)",
    "input-pipeline": r"(?i:\S*(?:tf_?records?|\.csv|\.jpe?g|\.png|\.txt|\.npy|\.npz|\.wav|train|dataset|/data/)\S*)",
}
# The faults that an error usually means if it occurs while TensorFlow or Keras is being imported.
AT_IMPORT: Mapping[str, float] = {
    "binary-incompatibility": 0.4,
    "keras-version-mismatch": 0.3,
    "broken-installation": 0.25,
}
