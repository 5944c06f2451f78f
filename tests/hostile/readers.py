"""Every reader of files that somebody else may have written, each with an intact file that it reads."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damage import as_text, damaged, damaged_bytes, damaged_lines
from hypothesis import strategies as st

from oomph.checkpoint.container import format_trouble, read_checkpoint, read_manifest, seal
from oomph.checkpoint.witness import WitnessBoard
from oomph.cli import main
from oomph.cli.fleet_table import fleet_as_document, fleet_as_text
from oomph.cli.list_of_runs import list_as_document, list_as_text
from oomph.doctor.observe.elf import names_in, problem_of, read_elf
from oomph.doctor.observe.host import observe_host
from oomph.doctor.observe.libraries import read_cache
from oomph.doctor.observe.packages import observe_packages, requirements
from oomph.doctor.observe.tensorflow import architectures, observe_tensorflow
from oomph.doctor.recorded import behind
from oomph.errors import OomphError
from oomph.explain.catalogue import catalogue
from oomph.explain.catalogue.catalogue import PageError, parse_page
from oomph.explain.catalogue.xid import read_table
from oomph.explain.reading.file import read_dump
from oomph.gpu.question import parse
from oomph.journal.journal import Event, foreign_format, read_journal, unreadable_lines
from oomph.protocol.creations import DIRECTORY, Creation, Earlier
from oomph.protocol.handover import REHEARSAL, Handover, Injection
from oomph.protocol.handover import VARIABLE as HANDOVER
from oomph.protocol.progress import ProgressBoard, read_progress
from oomph.report.profile_figures import figures_of
from oomph.report.xplane import DamagedTraceError, LargeTraceError
from oomph.run.directory.pruning import remove
from oomph.run.directory.run_directory import RunDirectory, read_record, read_summary
from oomph.run.directory.unfinished import first_trusted, unfinished, unfinished_runs
from oomph.run.fleet.comparison import compare, gpu_visits, host_visits
from oomph.run.fleet.fleet import Fleet
from oomph.run.fleet.placed_run import PlacedAttempt, PlacedRun, placed_run
from oomph.run.policy import decisions
from oomph.run.policy.decide import decide
from oomph.run.policy.examination import Trail, examine
from oomph.run.report.account import account
from oomph.run.report.profiled import not_recorded
from oomph.run.report.story import as_text as story_as_text
from oomph.run.report.story import story_of
from oomph.run.report.summary import summarise
from oomph.run.supervisor.attempt_conditions import Machine, conditions
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.effects import environ_after, for_the_script, most_samples, set_aside
from oomph.script.kept_micro_batches import MicroBatches, Start

DATA = Path(__file__).parent
RUN = DATA / "run"
TRACE = DATA / "trace.xplane.pb"
"""A step on the host and on a GPU, as TensorFlow's profiler writes it."""
WHOLE = {path.relative_to(RUN).as_posix(): path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
"""A run on disk that ran out of memory, was killed, and continued."""


@dataclass(frozen=True)
class Reader:
    """A reader: the file that it reads, damaged copies of it, and how to call it."""

    name: str
    file: str
    """The path, relative to the folder."""
    contents: st.SearchStrategy[bytes]
    read: Callable[[Path], Any]
    refuses: tuple[type[Exception], ...] = ()
    """The exceptions that it is documented to raise."""


def _journal(run: Path) -> None:
    events = read_journal(run)
    unreadable_lines(run)
    foreign_format(run)
    summary = summarise(events, 1)
    summary.to_json()
    list(not_recorded(events))
    for line in account(summary, str(run), "again"):
        str(line)
    _story(events)
    _story([event._replace(attempt=event.attempt - 1) for event in events if event.name != "resumed"])  # counted from 0
    found = decisions.replay(events)
    decisions.as_text(found, "run")
    as_text(decisions.as_document(found))
    ledger = decisions.ledger_of(events)
    most_samples(ledger.changes)
    for_the_script(ledger.changes)
    environ_after(ledger.changes, {}, ())
    for change in ledger.changes:
        set_aside(run / "checkpoints", change.value)
    behind(run, ["device-oom"])


def _fleet(run: Path) -> None:
    """Compare the run with an intact one on another host."""
    sound = PlacedRun(run, "train", (PlacedAttempt("node-2", (), ()),))
    each = (placed_run(run), sound)
    hosts, gpus = (compare(visit for one in each for visit in visits(one)) for visits in (host_visits, gpu_visits))
    places = {gpu.uuid: (attempt.host, gpu) for one in each for attempt in one.attempts for gpu in attempt.gpus}
    fleet = Fleet(2, 0, hosts, gpus, places)
    assert "\x1b" not in fleet_as_text(fleet, 80)
    as_text(fleet_as_document(fleet))


def _figures(run: Path) -> None:
    figures_of((run / TRACE.name).read_bytes())


def _story(events: Sequence[Event]) -> None:
    told = story_of(events, summarise(events, None), [], ["train.py"])
    assert told.result == ""
    story_as_text(told, "run", "", str, 80)
    as_text(told.as_document())


def _resume(run: Path) -> None:
    chronicle = Chronicle(run, 2)
    ledger = chronicle.close_lost_attempt()
    chronicle.machine_before()
    chronicle.went_further()
    chronicle.script.loops()
    chronicle.guarded()
    events = chronicle.script.events()
    there = conditions(Machine({}), "", events, run, -9)
    _, ending = examine(Trail(-9, None, b"", False, events, chronicle.script.progress(), again=True))
    action = decide(ending, ledger, there)
    if getattr(action, "change", None) is not None:
        set_aside(run / "checkpoints", action.change.value)


def _explain(*options: str) -> Callable[[Path], None]:
    def explain(run: Path) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            code = main(["explain", str(run), *options])
        assert code in (0, 1, 3), (code, out.getvalue())
        assert "\x1b" not in out.getvalue()

    return explain


def _record(run: Path) -> None:
    record = read_record(run)
    unfinished(run)
    first_trusted(unfinished_runs(str(run.parent)))
    if record is not None:
        reopened = RunDirectory.reopen(run)
        reopened.update(attempts=3)
        reopened.close()


def _listed(run: Path) -> None:
    list_as_text([run], 80)
    json.dumps(list_as_document([run]))
    remove(run, dry_run=True)


def _micro_batches(run: Path) -> None:
    kept = MicroBatches(run)
    start = kept.of(["train.py:8", "x"])
    assert start is None or 0 < start.samples < 2**63
    kept.keep(["train.py:8"], Start(4))
    assert MicroBatches(run).of(["train.py:8"]) == Start(4)


def _created(run: Path) -> None:
    earlier = Earlier.read(run, before=3)
    assert all(isinstance(path, str) for path in earlier.paths)
    earlier.has(Creation(DIRECTORY, "/x", "train.py", 1))
    earlier.is_still("/x", 5)


def _checkpoint(folder: Path) -> None:
    seal(folder)  # whoever forges a checkpoint also writes its checksums
    with contextlib.suppress(OomphError):
        read_manifest(folder)
    with contextlib.suppress(OomphError):
        format_trouble(folder)
    for _, content in read_checkpoint(folder).read():
        len(content)


def _sums(folder: Path) -> None:
    for _, content in read_checkpoint(folder).read():
        len(content)


def _page(folder: Path) -> None:
    parse_page((folder / "page.md").read_bytes(), Path("memory/device-oom.md"))


def _packages(folder: Path) -> None:
    found = observe_packages([str(folder)])
    list(requirements("tensorflow", [str(folder)]))
    observe_tensorflow(found, {"XLA_FLAGS": "--xla_dump_to=/x"})


def _elf(folder: Path) -> None:
    path = folder / "library.so"
    problem_of(path, "x86_64")
    for look in (read_elf, architectures, lambda path: names_in(path, ("xla_dump_to",))):
        with contextlib.suppress(OSError, ValueError):
            look(path)


def _json(name: str, base: str) -> st.SearchStrategy[bytes]:
    return st.one_of(
        damaged(json.loads(base)).map(as_text).map(str.encode), damaged_bytes(base.encode()), st.binary(max_size=80)
    )


def _lines(name: str) -> st.SearchStrategy[bytes]:
    return damaged_lines(WHOLE[name].decode().splitlines())


def readers(library: bytes, cache: bytes, pages: list[str], checkpoint: dict[str, str]) -> list[Reader]:
    """Return all readers.

    Args:
        library: a shared library.
        cache: an ld.so.cache.
        pages: the pages of the catalogue.
        checkpoint: the text files of a checkpoint.
    """
    journal, early = "journal/2-0-script.jsonl", "journal/1-0-supervisor.jsonl"
    run_json, summary_json = WHOLE["run.json"].decode(), WHOLE["summary.json"].decode()
    metadata = (
        "Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.21.0\n"
        'Requires-Dist: nvidia-cudnn-cu12<10,>=9.3; extra == "and-cuda"\n'
    )
    facts = "collections.OrderedDict([('cuda_version', '12.5.1'), ('is_cuda_build', True)])"
    build = f"import collections\nbuild_info = {facts}\n"
    pieces = "MemTotal:       24000000 kB\n"
    handover = as_text(
        {"package": "/x", "run_dir": "/x", "attempt": 1, "guarding": {"guard": True}, "changes": [["no-xla", ""]]}
    )
    injection = as_text({"fault": "killed", "earlier": ["a"]})
    said = b'{"version": 12050}\n{"row": {"index": 0, "name": "H100", "memory": 5}}\n'
    table = (Path(catalogue.__file__).parent / "xid.csv").read_bytes()
    return [
        Reader("journal of the script", journal, _lines(journal), _journal),
        Reader("journal of the supervisor", early, _lines(early), _journal),
        Reader("journal, resumed", journal, _lines(journal), _resume),
        Reader("journal of the supervisor, resumed", early, _lines(early), _resume),
        Reader("journal, explained", journal, _lines(journal), _explain()),
        Reader("journal of the supervisor, explained as JSON", early, _lines(early), _explain("--json")),
        Reader("journal, replayed", early, _lines(early), _explain("--decisions")),
        Reader("journal of the supervisor, compared by machine", early, _lines(early), _fleet),
        Reader("run.json", "run.json", _json("run", run_json), _record, (OomphError,)),
        Reader("run.json, listed", "run.json", _json("run", run_json), _listed),
        Reader("summary.json", "summary.json", _json("summary", summary_json), read_summary),
        Reader("summary.json, listed", "summary.json", _json("summary", summary_json), _listed),
        Reader("progress board", "progress", damaged_bytes(WHOLE["progress"]), _progress),
        Reader("progress board, listed", "progress", damaged_bytes(WHOLE["progress"]), _listed),
        Reader("witnesses", "witness", damaged_bytes(bytes(4096)), lambda run: WitnessBoard(run, 3).before, (OSError,)),
        Reader("micro-batches", "micro_batch.json", _json("m", WHOLE["micro_batch.json"].decode()), _micro_batches),
        Reader("notes of creations", "created-1.jsonl", _lines("created-1.jsonl"), _created),
        Reader("stderr", "stderr/1.log", damaged_bytes(WHOLE["stderr/1.log"]), _explain()),
        Reader(
            "lock", "lock", st.one_of(damaged_bytes(b"vm 1234 5678\n"), st.binary(max_size=600)), _record, (OomphError,)
        ),
        Reader(
            "manifest and metadata",
            "manifest.json",
            _json("c", checkpoint["manifest.json"]),
            _checkpoint,
            (OomphError,),
        ),
        Reader("trace", TRACE.name, damaged_bytes(TRACE.read_bytes()), _figures, (DamagedTraceError, LargeTraceError)),
        Reader("checksums", "SHA256SUMS", damaged_bytes(checkpoint["SHA256SUMS"].encode()), _sums, (OomphError,)),
        Reader(
            "pages",
            "page.md",
            st.sampled_from(pages).flatmap(lambda page: damaged_bytes(page.encode())),
            _page,
            (PageError,),
        ),
        Reader(
            "table of Xids",
            "xid.csv",
            damaged_bytes(table),
            lambda folder: read_table(folder / "xid.csv"),
            (ValueError,),
        ),
        Reader(
            "heap dump",
            "bfc.dump",
            damaged_bytes(bytes(range(1, 200)) * 3),
            lambda run: read_dump(run / "bfc.dump"),
            (ValueError,),
        ),
        Reader("ELF", "library.so", damaged_bytes(library), _elf),
        Reader("ld.so.cache", "etc/ld.so.cache", damaged_bytes(cache), read_cache),
        Reader("packages", "tensorflow-2.21.0.dist-info/METADATA", damaged_bytes(metadata.encode()), _packages),
        Reader("build_info.py", "tensorflow/python/platform/build_info.py", damaged_bytes(build.encode()), _packages),
        Reader(
            "/proc/meminfo", "proc/meminfo", damaged_bytes(pieces.encode()), lambda root: observe_host({}, root, root)
        ),
        Reader(
            "control group",
            "proc/self/cgroup",
            damaged_bytes(b"0::/a/b\n3:memory:/x\n"),
            lambda root: observe_host({}, root, root),
        ),
        Reader(
            "handover",
            "handover",
            _json("h", handover),
            lambda folder: Handover.read({HANDOVER: _text(folder / "handover")}),
        ),
        Reader(
            "injection",
            "injection",
            _json("i", injection),
            lambda folder: Injection.read({REHEARSAL: _text(folder / "injection")}),
        ),
        Reader("a child's answer", "said", damaged_bytes(said), lambda folder: parse((folder / "said").read_bytes())),
    ]


def _progress(run: Path) -> None:
    read_progress(run)
    board = ProgressBoard(run, 3)
    board.count_step()
    board.write(0, 1, 2, 3, 4)
    found = read_progress(run)
    assert found is not None
    assert found.steps == 3


def _text(path: Path) -> str:
    return path.read_text(errors="surrogateescape").replace("\0", "")
