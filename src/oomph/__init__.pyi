"""The public names with their types, for type checkers: at run time, each name is imported on first use."""

from oomph.api.check_fit import check as check
from oomph.api.guard import guard as guard
from oomph.api.map_batches import map_batches as map_batches
from oomph.api.memory_plan import plan as plan
from oomph.api.steps import steps as steps
from oomph.errors import IsolatedError as IsolatedError
from oomph.errors import OomphError as OomphError
from oomph.errors import TrainingStoppedError as TrainingStoppedError
from oomph.explain.catalogue.fault import Fault as Fault
from oomph.explain.diagnose import diagnose as diagnose
from oomph.explain.evidence.evidence import Evidence as Evidence
from oomph.explain.matching.named_fault import Diagnosis as Diagnosis
from oomph.journal.journal_reader import read_journal as read_journal
from oomph.monitor.live.callback import Monitor as Monitor
from oomph.notebook.enabling import disable as disable
from oomph.notebook.enabling import enable as enable
from oomph.notebook.enabling import load_ipython_extension as load_ipython_extension
from oomph.notebook.enabling import unload_ipython_extension as unload_ipython_extension
from oomph.process.isolation.isolate import Isolated as Isolated
from oomph.process.isolation.isolate import isolate as isolate

__version__: str

__all__ = [
    "Diagnosis",
    "Evidence",
    "Fault",
    "Isolated",
    "IsolatedError",
    "Monitor",
    "OomphError",
    "TrainingStoppedError",
    "__version__",
    "check",
    "diagnose",
    "disable",
    "enable",
    "guard",
    "isolate",
    "load_ipython_extension",
    "map_batches",
    "plan",
    "read_journal",
    "steps",
    "unload_ipython_extension",
]
