"""Stands in for a script when `oomph run` runs a notebook: `python start.py [--out FILE] NOTEBOOK ARGUMENT…`.

The script's Python runs this file. oomph may not be installed there, and the notebook must find the same modules as
under Jupyter, so this file loads the oomph package that it belongs to from its location, without sys.path.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_oomph() -> None:
    """Import the oomph package from this file's location, unless it was injected when this Python started."""
    if "oomph" in sys.modules:
        return
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(os.path.dirname(_HERE))
    init = os.path.join(package, "__init__.py")
    spec = spec_from_file_location("oomph", init, submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["oomph"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036  the script's Python may be older than oomph's own
        sys.exit("oomph: a notebook needs Python 3.10 or newer, and this is " + sys.executable)
    if sys.path and os.path.abspath(sys.path[0]) == _HERE:
        del sys.path[0]
    _load_oomph()
    from oomph.notebook.as_script.execution import main

    main(sys.argv[1:])
