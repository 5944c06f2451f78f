"""A Keras that does not match this TensorFlow."""

from oomph.doctor.check import Check, Finding, failed, passed, skipped, warned
from oomph.doctor.commands import export, install
from oomph.doctor.snapshot import Snapshot
from oomph.explain.catalogue.fault import Remedy

_TRUE = ("1", "true", "t")


def _look(snapshot: Snapshot) -> Finding:
    tensorflow, keras = snapshot.tensorflow, snapshot.packages.get("keras")
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    series = ".".join(map(str, tensorflow.numbers[:2]))
    legacy = snapshot.packages.get("tf-keras")
    backend = snapshot.environment.get("KERAS_BACKEND", "tensorflow")
    if snapshot.environment.get("TF_USE_LEGACY_KERAS", "").lower() in _TRUE and tensorflow.numbers >= (2, 16):
        if legacy is None:
            get = Remedy("Install the Keras 2 that it asks for", install(snapshot, f"tf_keras=={series}.*"))
            return failed(
                "binary-incompatibility",
                "TF_USE_LEGACY_KERAS is set, but tf_keras is not installed: import tf.keras fails.",
                get,
            )
        if not legacy.version.startswith(f"{series}."):
            get = Remedy("Install the matching one", install(snapshot, f"tf_keras=={series}.*"))
            return warned(
                "binary-incompatibility",
                f"tf_keras {legacy.version} is for another TensorFlow than {tensorflow.version}.",
                get,
            )
    if backend != "tensorflow":
        text = f"KERAS_BACKEND={backend}: Keras will not use TensorFlow, and oomph guards nothing."
        return warned(
            "binary-incompatibility", text, Remedy("Choose TensorFlow", export("KERAS_BACKEND", "tensorflow"))
        )
    if keras is not None and tensorflow.numbers >= (2, 16) and keras.version.startswith(("1.", "2.")):
        get = Remedy("Install Keras 3", install(snapshot, "keras>=3"))
        return failed(
            "binary-incompatibility",
            f"Keras {keras.version} with TensorFlow {tensorflow.version}, which needs Keras 3.",
            get,
        )
    return passed(f"Keras {keras.version}" if keras else "no separate Keras")


CHECK = Check(
    code="DOC113",
    name="keras-version",
    why=(
        "TensorFlow 2.16 and later need Keras 3; a Keras 2 beside it, or a tf_keras of another release, fails at import"
        " or trains something else."
    ),
    look=_look,
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="https://keras.io/getting_started/#tensorflow--keras-2-backwards-compatibility",
)
