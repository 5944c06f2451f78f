"""Runs a module of this oomph, unaffected by PYTHON* variables: `python -I isolated_start.py MODULE WORD…`."""

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _load_package() -> None:
    """Import oomph from this file's location, since a different copy may be installed here."""
    from importlib.util import module_from_spec, spec_from_file_location

    init = os.path.join(_PACKAGE, "__init__.py")
    spec = spec_from_file_location("oomph", init, submodule_search_locations=[_PACKAGE])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["oomph"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


def _look_everywhere() -> None:
    """Search our own module folders first, then also those of the Python that started this process."""
    folders = os.environ.pop("OOMPH_SEARCH_PATH", "").split("\n")
    sys.path += [folder for folder in (os.path.dirname(_PACKAGE), *folders) if folder and folder not in sys.path]


if __name__ == "__main__":
    import runpy

    _load_package()
    _look_everywhere()
    sys.argv[:] = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
