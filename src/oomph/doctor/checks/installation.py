"""Checks Python, TensorFlow, Keras and the wheels that they were installed from."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from oomph.doctor.check import DoctorFinding, check, failed, noted, passed, skipped, warned
from oomph.doctor.commands import export, install, reinstall, tensorflow_with_cuda
from oomph.doctor.observe.packages import normal
from oomph.doctor.observe.tensorflow import DISTRIBUTIONS
from oomph.doctor.releases import RELEASES, release_of
from oomph.doctor.snapshot import Package, Snapshot, numbers_in
from oomph.explain.catalogue.fault import Remedy

_WSL = Remedy("Run the script in WSL2, where the Linux wheels find the GPU", "wsl --install -d Ubuntu")


@check(
    "DOC101",
    why=(
        "Wheels with CUDA exist only for Linux on x86-64 with glibc; on other systems, the same pip command installs"
        " TensorFlow for the CPU."
    ),
    faults=("cpu-only-build", "binary-incompatibility"),
    needs=("host",),
    source="https://www.tensorflow.org/install/pip",
)
def platform(snapshot: Snapshot) -> DoctorFinding:
    """A system on which TensorFlow does not support CUDA."""
    host, tensorflow = snapshot.host, snapshot.tensorflow
    where = f"{host.system} {host.machine}, {host.libc or 'no glibc'}"
    if host.system == "Windows" and (tensorflow is None or tensorflow.numbers > (2, 10, 1)):
        return failed("cpu-only-build", "Native Windows: TensorFlow after 2.10 does not support CUDA there.", _WSL)
    if host.system == "Darwin":
        rent = Remedy("Train on a Linux machine with an NVIDIA GPU")
        return warned(
            "cpu-only-build",
            "macOS: TensorFlow does not support CUDA there, and no current Mac has an NVIDIA GPU.",
            rent,
        )
    if host.libc.startswith("musl"):
        image = Remedy("Use an image with glibc", "docker run --gpus all tensorflow/tensorflow:latest-gpu ...")
        return failed("binary-incompatibility", f"{where}: TensorFlow's wheels are built for glibc.", image)
    if host.machine in ("aarch64", "arm64") and tensorflow is not None and tensorflow.cuda is False:
        ngc = Remedy(
            "Use NVIDIA's container, which is built with CUDA for this processor",
            "docker pull nvcr.io/nvidia/tensorflow:25.02-tf2-py3",
        )
        return warned("cpu-only-build", f"{where}: the wheels on PyPI are built without CUDA.", ngc)
    return passed(where)


@check(
    "DOC102",
    why=(
        "TensorFlow's extension modules load only in the minor version of CPython that they were compiled for; in any"
        " other, import tensorflow fails."
    ),
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="PEP 425; the Tag lines of the wheel's WHEEL file",
)
def python_version(snapshot: Snapshot) -> DoctorFinding:
    """A Python that this TensorFlow was not built for."""
    python, tensorflow = snapshot.python, snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    package = snapshot.packages.get(tensorflow.distribution)
    tags = package.tags if package else ()
    made_for = sorted({tag.split("-")[0] for tag in tags})
    if made_for and python.tag not in made_for and not any(tag.startswith("py") for tag in made_for):
        return failed(
            "binary-incompatibility",
            f"TensorFlow {tensorflow.version} was installed for {', '.join(made_for)}, but this is Python"
            f" {python.version_text} ({python.tag}).",
            Remedy(
                "Reinstall it for this Python", install(snapshot, "--force-reinstall", _release_for_python(snapshot))
            ),
        )
    return passed(f"Python {python.version_text}, which TensorFlow {tensorflow.version} was built for")


def _release_for_python(snapshot: Snapshot) -> str:
    """Return the requirement for the installed version, or for the newest one with a wheel for this Python."""
    assert snapshot.tensorflow is not None
    minor = snapshot.python.version[1]
    own = release_of(snapshot.tensorflow.numbers)
    if own is None or own.pythons[0] <= minor <= own.pythons[1]:
        return f"tensorflow[and-cuda]=={snapshot.tensorflow.version}"
    fitting = [release for release in RELEASES if release.pythons[0] <= minor <= release.pythons[1]]
    return f"tensorflow[and-cuda]=={'.'.join(map(str, fitting[-1].series))}.*" if fitting else "tensorflow[and-cuda]"


@check(
    "DOC103",
    why=(
        "Scripts in bin/ contain the full path of their Python: after a move, pip installs into the old location, and"
        " the script does not see it."
    ),
    faults=("binary-incompatibility",),
    source="https://docs.python.org/3/library/venv.html, on moving environments",
)
def environment_moved(snapshot: Snapshot) -> DoctorFinding:
    """A virtual environment that was moved or copied manually."""
    python = snapshot.python
    if not python.prefix or python.prefix == python.base_prefix:
        return skipped("no virtual environment")
    if python.moved_from:
        return warned(
            "binary-incompatibility",
            f"The virtual environment {python.prefix} was created in {python.moved_from}: `pip` and other commands in"
            " its bin/ still use that location.",
            Remedy(
                "Recreate it in its permanent location",
                f"python{python.version[0]}.{python.version[1]} -m venv --clear {python.prefix}",
            ),
            Remedy("Until then, run pip through its Python", f"{python.executable} -m pip list"),
        )
    return passed("the virtual environment is where it was created")


@check(
    "DOC110",
    why=(
        "Nothing trains without it, or with half of it: if pip was interrupted, there is metadata without files, or"
        " files without metadata, and imports get a mixture."
    ),
    faults=("broken-installation", "binary-incompatibility"),
    needs=("packages", "tensorflow"),
    source="https://packaging.python.org/en/latest/specifications/recording-installed-packages/",
)
def tensorflow_installed(snapshot: Snapshot) -> DoctorFinding:
    """TensorFlow is not installed, or only partly."""
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return failed(
            "broken-installation",
            f"{snapshot.python.executable} does not have TensorFlow.",
            Remedy("Install it, with its CUDA libraries", install(snapshot, "tensorflow[and-cuda]")),
            Remedy("Or specify the Python that has it", "oomph doctor --python path/to/python"),
        )
    broken = [package for package in snapshot.packages.found if package.problem]
    if broken:
        named = "; ".join(f"{package.name} {package.version}: {package.problem}" for package in broken)
        wanted = tensorflow_with_cuda(snapshot) if any("tensorflow" in p.name for p in broken) else broken[0].name
        add = Remedy("Uninstall and reinstall them", reinstall(snapshot, [p.name for p in broken], wanted))
        fail = any(package.problem.endswith("is gone") for package in broken)
        text = f"Half-installed packages: {named}."
        return (failed if fail else warned)("binary-incompatibility", text, add)
    if snapshot.packages.leftovers:
        folders = " ".join(snapshot.packages.leftovers)
        remove = Remedy("Remove what an interrupted pip left behind", f"rm -r {folders}")
        return warned("binary-incompatibility", f"An interrupted pip left {folders} behind.", remove)
    return passed(f"TensorFlow {tensorflow.version}")


@check(
    "DOC111",
    why="They overwrite each other's files: imports get a mixture of both, and uninstalling one breaks the other.",
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="https://github.com/pypa/pip/issues/4625",
)
def tensorflow_twice(snapshot: Snapshot) -> DoctorFinding:
    """Two distributions that both contain the package `tensorflow`."""
    if snapshot.tensorflow is None:
        return skipped("TensorFlow is not installed")
    everywhere = [package for package in snapshot.packages.found if package.name in DISTRIBUTIONS]
    folder = snapshot.packages.get(snapshot.tensorflow.distribution)
    found = [package for package in everywhere if folder is not None and package.folder == folder.folder]
    if len(found) < 2 or _is_shim(found):
        if len(everywhere) > len(found):
            others = ", ".join(f"{p.name} {p.version} in {p.folder}" for p in everywhere if p not in found)
            return noted(
                f"the first one on sys.path is used, {found[0].name} {found[0].version}; there is also {others}"
            )
        return passed("only one distribution contains TensorFlow")
    named = ", ".join(f"{package.name} {package.version}" for package in found)
    newest = f"tensorflow[and-cuda]=={max((p.version for p in found), key=numbers_in)}"
    names = list(dict.fromkeys(package.name for package in found))
    return failed(
        "binary-incompatibility",
        f"{len(found)} distributions install the package tensorflow into {found[0].folder}: {named}.",
        Remedy("Uninstall all of them, then install one", reinstall(snapshot, names, newest)),
    )


def _is_shim(found: list[Package]) -> bool:
    """True for the empty `tensorflow` wheel on Windows and ARM with the wheel that it requires, in the same version."""
    return len({package.version for package in found}) == 1 and {"tensorflow", "tensorflow-intel"} == {
        p.name for p in found
    }


@check(
    "DOC112",
    why="It silently trains on the CPU: nothing in its log says that a GPU was expected.",
    faults=("cpu-only-build",),
    needs=("tensorflow",),
    source="tensorflow/python/platform/build_info.py in the wheel",
)
def cpu_only_build(snapshot: Snapshot) -> DoctorFinding:
    """A TensorFlow that was built without CUDA, on a machine with an NVIDIA GPU."""
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    if tensorflow.rocm:
        return noted(f"{tensorflow.distribution} {tensorflow.version} is built for AMD's ROCm")
    if tensorflow.cuda is False:
        if not snapshot.gpu_wanted:
            return passed(f"{tensorflow.distribution} {tensorflow.version} is built for the CPU, and there is no GPU")
        return failed(
            "cpu-only-build",
            f"{tensorflow.distribution} {tensorflow.version} is built without CUDA: it cannot use this machine's GPU.",
            Remedy(
                "Replace it with the CUDA build",
                reinstall(snapshot, [tensorflow.distribution], tensorflow_with_cuda(snapshot)),
            ),
        )
    if tensorflow.cuda is None:
        return noted(f"the TensorFlow {tensorflow.version} wheel does not say what it was built for")
    version = ".".join(map(str, tensorflow.cuda_version)) or "of a version that its wheel does not state"
    return passed(f"TensorFlow {tensorflow.version} is built with CUDA {version} (source: {tensorflow.source})")


_TRUE = ("1", "true", "t")


@check(
    "DOC113",
    why=(
        "TensorFlow 2.16 and later need Keras 3. Keras 2 in its place, or tf_keras from a different release, fails at "
        "import or gives different results."
    ),
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="https://keras.io/getting_started/#tensorflow--keras-2-backwards-compatibility",
)
def keras_version(snapshot: Snapshot) -> DoctorFinding:
    """A Keras version that does not match this TensorFlow."""
    tensorflow, keras = snapshot.tensorflow, snapshot.packages.get("keras")
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    series = ".".join(map(str, tensorflow.numbers[:2]))
    legacy = snapshot.packages.get("tf-keras")
    backend = snapshot.environment.get("KERAS_BACKEND", "tensorflow")
    is_legacy = snapshot.environment.get("TF_USE_LEGACY_KERAS", "").lower() in _TRUE and tensorflow.numbers >= (2, 16)
    if is_legacy:
        if legacy is None:
            text = "Install tf_keras, the Keras 2 package that this setting requires"
            get = Remedy(text, install(snapshot, f"tf_keras=={series}.*"))
            return failed(
                "binary-incompatibility",
                "TF_USE_LEGACY_KERAS is set, but tf_keras is not installed: import tf.keras fails.",
                get,
            )
        if not legacy.version.startswith(f"{series}."):
            get = Remedy("Install the matching one", install(snapshot, f"tf_keras=={series}.*"))
            return warned(
                "binary-incompatibility",
                f"tf_keras {legacy.version} does not match TensorFlow {tensorflow.version}.",
                get,
            )
    if backend != "tensorflow":
        text = f"KERAS_BACKEND={backend}: Keras will not use TensorFlow, and oomph cannot guard it."
        return warned("binary-incompatibility", text, Remedy("Use TensorFlow", export("KERAS_BACKEND", "tensorflow")))
    if keras is not None and tensorflow.numbers >= (2, 16) and keras.version.startswith(("1.", "2.")):
        get = Remedy("Install Keras 3", install(snapshot, "keras>=3"))
        return failed(
            "binary-incompatibility",
            f"Keras {keras.version} with TensorFlow {tensorflow.version}, which needs Keras 3.",
            get,
        )
    older = legacy if is_legacy else keras if tensorflow.numbers < (2, 16) else None
    if older is not None:
        return _keras_2(older.version, snapshot)
    return passed(f"Keras {keras.version}" if keras else "no separate Keras")


def _keras_2(version: str, snapshot: Snapshot) -> DoctorFinding:
    """Return what oomph can do for this Keras 2."""
    if numbers_in(version) >= (2, 12):
        return noted(f"Keras {version}: oomph run divides batches that do not fit, but takes no checkpoints")
    get = Remedy("Use Keras 2.12 or newer, to have batches divided", install(snapshot, "tensorflow==2.15.*"))
    return noted(f"Keras {version}: oomph run only supervises its fits", get)


@check(
    "DOC114",
    why=(
        "Another package has replaced one that TensorFlow was built against: imports fail with a missing symbol or"
        " attribute, or crash."
    ),
    faults=("binary-incompatibility",),
    needs=("packages",),
    source="Requires-Dist in the installed wheel's METADATA",
)
def requirements(snapshot: Snapshot) -> DoctorFinding:
    """Packages (NumPy, protobuf, Keras, h5py, …) in versions that TensorFlow's own metadata rules out."""
    tensorflow = snapshot.tensorflow
    if tensorflow is None:
        return skipped("TensorFlow is not installed")
    wrong = [(p, need) for p, need in _demands(snapshot) if not p.name.startswith("nvidia-") and not _met(p, need)]
    if not wrong:
        return passed(
            f"everything that TensorFlow {tensorflow.version} requires is installed, in versions that it allows"
        )
    return failed("binary-incompatibility", *_not_allowed(snapshot, wrong))


def _demands(snapshot: Snapshot) -> Iterator[tuple[Package, Requirement]]:
    """Yield each installed package that TensorFlow requires (including the and-cuda extra), with the requirement."""
    tensorflow = snapshot.packages.get(snapshot.tensorflow.distribution) if snapshot.tensorflow else None
    marks = {"extra": "and-cuda", "python_version": "{}.{}".format(*snapshot.python.version[:2])}
    for line in tensorflow.requires if tensorflow else ():
        try:
            need = Requirement(line)
        except InvalidRequirement:
            continue  # metadata from before 2.13 no longer parses
        package = snapshot.packages.get(normal(need.name))
        if package is not None and (need.marker is None or need.marker.evaluate(marks)):
            yield package, need


def _not_allowed(snapshot: Snapshot, wrong: list[tuple[Package, Requirement]]) -> tuple[str, Remedy]:
    """Return the message and the remedy for packages in versions that TensorFlow does not allow."""
    assert snapshot.tensorflow is not None
    named = ", ".join(f"{package.name} {package.version} (it requires {need.specifier})" for package, need in wrong)
    wanted = [f"{package.name}{need.specifier}" for package, need in wrong]
    text = f"TensorFlow {snapshot.tensorflow.version} does not allow {named}."
    return text, Remedy("Install versions that it allows", install(snapshot, *wanted))


def _met(package: Package, need: Requirement) -> bool:
    """True if the installed version is allowed, or is not a valid version."""
    try:
        return need.specifier.contains(package.version, prereleases=True)
    except ValueError:
        return True


@check(
    "DOC115",
    why=(
        "PyTorch, JAX and TensorFlow share these wheels: installing one can replace the versions that another was"
        " built with."
    ),
    faults=("cuda-library-missing", "cudnn-version-mismatch"),
    needs=("packages",),
    source="the extra and-cuda in the installed wheel's METADATA; https://github.com/tensorflow/tensorflow/issues/60913",
)
def nvidia_wheels(snapshot: Snapshot) -> DoctorFinding:
    """CUDA library wheels in versions that the installed TensorFlow rules out, or from two CUDA generations."""
    tensorflow = snapshot.tensorflow
    wheels = [package for package in snapshot.packages.found if _generation(package)]
    if tensorflow is None or not wheels:
        return skipped("no CUDA library wheels are installed")
    wrong = [(p, need) for p, need in _demands(snapshot) if p.name.startswith("nvidia-") and not _met(p, need)]
    if wrong:
        return warned("cuda-library-missing", *_not_allowed(snapshot, wrong))
    wanted_generation = f"cu{tensorflow.cuda_version[0]}" if tensorflow.cuda_version else ""
    if wanted_generation and not any(_generation(package) == wanted_generation for package in wheels):
        found = sorted({_generation(package) for package in wheels})
        return warned(
            "cuda-library-missing",
            f"The installed CUDA libraries are for {', '.join(found)}, but TensorFlow {tensorflow.version} loads those"
            f" for {wanted_generation}.",
            Remedy("Install the ones it needs", install(snapshot, tensorflow_with_cuda(snapshot))),
        )
    double = _double(wheels)
    if double:
        again = reinstall(snapshot, double, tensorflow_with_cuda(snapshot))
        text = f"Two generations of the same library share a folder: {', '.join(double)}."
        return warned("cudnn-version-mismatch", text, Remedy("Uninstall both, then install the right one", again))
    return passed(f"{len(wheels)} CUDA library wheels, in versions that TensorFlow {tensorflow.version} allows")


def _generation(package: Package) -> str:
    """Return the CUDA generation in the name of a wheel, such as "cu12" for nvidia-cudnn-cu12."""
    name, _, generation = package.name.rpartition("-")
    return generation if name.startswith("nvidia-") and generation.startswith("cu") and generation[2:].isdigit() else ""


def _double(wheels: list[Package]) -> list[str]:
    """Return the wheels that share a stem, and therefore the folder nvidia/<stem>/lib."""
    stems = [package.name.rpartition("-")[0] for package in wheels]
    return sorted(package.name for package in wheels if stems.count(package.name.rpartition("-")[0]) > 1)
