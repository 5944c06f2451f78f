"""What oomph reports during a fit appears under the fit's cell in a real kernel, and nothing else changes there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from real_kernels import Kernel, Ran

SESSION = """
import ctypes, os, subprocess, sys, threading, time
from oomph.notebook.display import showing
from oomph.protocol.handover import Handover
from oomph.script import guarded_trainings
from oomph.script.session import join
session = join(Handover(package="", run_dir={run!r}))
showing.begin(session)
"""
DUMP = """
def native(text, severity="W", file="external/local_xla/xla/tsl/framework/bfc_allocator.cc"):
    return f"2026-11-29 20:30:00.123456: {severity} {file}:497] {text}\\n"
dump = native("Allocator (cpu_bfc) ran out of memory trying to allocate 64.00MiB (rounded to 67108864)")
dump += "If the cause is memory fragmentation maybe the environment variable will help\\n"
dump += "Current allocation summary follows.\\n"
dump += "".join(native(f"Bin ({n}): \\tTotal Chunks: 0, Chunks in use: 0.", "I") for n in range(170))
def write(text, fd=2):
    data = text.encode()
    while data:
        data = data[os.write(fd, data):]
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    with Kernel(folder) as started:
        started.good(SESSION.format(run=str(folder / "run")) + DUMP)
        yield started


def _shown(cell: Ran) -> list[tuple[str, str, str]]:
    """Return the type, the cell and the display id of each display message."""
    return [
        (each["msg_type"], each["parent_header"]["msg_id"], each["content"]["transient"]["display_id"])
        for each in cell.of("display_data", "update_display_data")
    ]


def test_story_of_a_fit_is_a_single_updated_display(kernel: Kernel) -> None:
    cell = kernel.good(
        "guarded_trainings.begins(); session.say('guarding fit (exact)'); print('1/1')\n"
        "session.say('recovered in 11.0 s: <b>'); guarded_trainings.ends(); session.say('closing line')",
        after=0.3,
    )
    first, *updates = _shown(cell)
    assert first[:2] == ("display_data", cell.request)
    assert updates == [("update_display_data", cell.request, first[2])] * 2
    assert cell.err == ""
    assert cell.out == "1/1\n"
    last = cell.of("update_display_data")[-1]["content"]["data"]
    assert last["text/plain"].split("\n") == [
        "oomph: guarding fit (exact)", "oomph: recovered in 11.0 s: <b>", "oomph: closing line",
    ]  # fmt: skip
    assert "recovered in 11.0 s: &lt;b&gt;" in last["text/html"]


def test_each_fit_has_its_own_display(kernel: Kernel) -> None:
    cell = kernel.good(
        "for number in range(2):\n"
        "    guarded_trainings.begins(); session.say(f'fit {number}'); session.say('done'); guarded_trainings.ends()"
    )
    shown = _shown(cell)
    assert [kind for kind, _, _ in shown] == ["display_data", "update_display_data"] * 2
    assert len({name for _, _, name in shown}) == 2


def test_warning_goes_to_stderr(kernel: Kernel) -> None:
    cell = kernel.good("session.warn('no checkpoints: the disk is full')", after=0.3)
    assert cell.err == "oomph: no checkpoints: the disk is full\n"
    assert _shown(cell) == []


def test_report_from_a_thread_appears_in_the_cell_of_its_fit(kernel: Kernel) -> None:
    first = kernel.good(
        "guarded_trainings.begins(); session.say('guarding fit'); guarded_trainings.ends()\n"
        "threading.Thread(target=lambda: (time.sleep(1), session.say('a late checkpoint'))).start()"
    )
    second = kernel.good("time.sleep(2)", after=0.3)
    assert _shown(second) == [("update_display_data", first.request, _shown(first)[0][2])]
    assert "oomph: a late checkpoint" in second.of("update_display_data")[0]["content"]["data"]["text/plain"]


def test_report_from_a_later_cell_appears_in_that_cell(kernel: Kernel) -> None:
    first = kernel.good("guarded_trainings.begins(); session.say('guarding fit'); guarded_trainings.ends()")
    second = kernel.good("session.say('evaluate now splits its batch')")
    assert _shown(second)[0][:2] == ("display_data", second.request)
    assert _shown(second)[0][2] != _shown(first)[0][2]


def test_capture_magic_captures_the_story(kernel: Kernel) -> None:
    cell = kernel.good(
        "%%capture caught\nguarded_trainings.begins(); session.say('guarding fit'); guarded_trainings.ends()", after=0.3
    )
    assert _shown(cell) == []
    assert "guarding fit" in kernel.good("print(caught.outputs[0].data['text/plain'])").out


def test_allocator_report_goes_to_a_file_and_everything_else_to_the_cell_in_order(
    kernel: Kernel, tmp_path: Path
) -> None:
    cell = kernel.good(
        "before = os.fstat(2).st_ino\n"
        "guarded_trainings.begins(); session.say('guarding fit')\n"
        "assert os.fstat(2).st_ino != before\n"
        "write('one\\n' + dump + 'two\\n')\n"
        "subprocess.run(['sh', '-c', 'echo three >&2'], check=True); write('fo'); write('ur\\n')\n"
        "guarded_trainings.ends()\n"
        "assert os.fstat(2).st_ino == before\n"
        "write('five\\n'); write(dump)",
        after=0.5,
    )
    shown = cell.err
    assert shown.startswith("one\ntwo\nthree\nfour\nfive\n")
    assert shown.count("Total Chunks") == 170  # no fit was running any more
    story = cell.of("update_display_data")[-1]["content"]["data"]["text/plain"]
    assert "oomph: TensorFlow's report of the failed allocation (173 lines) is in run/stderr/1-memory.log" in story
    kept = kernel.good("print(open('run/stderr/1-memory.log').read() == dump)")
    assert kept.out == "True\n"


def test_start_of_a_possible_log_line_is_not_held_until_the_fit_ends(kernel: Kernel) -> None:
    cell = kernel.good(
        "guarded_trainings.begins(); write('2026-11-29'); time.sleep(1); write(' is a date\\n'); print('end')",
        after=0.5,
    )
    kernel.good("guarded_trainings.ends()")
    words = [each["content"]["text"] for each in cell.of("stream")]
    assert words[0] == "2026-11-29"


@pytest.mark.timeout(90)
def test_native_code_that_holds_the_gil_can_write_200_kib(kernel: Kernel) -> None:
    """ipykernel alone hangs forever beyond 64 KiB: its reader needs the GIL."""
    cell = kernel.good(
        "guarded_trainings.begins()\n"
        "data = b''.join(b'%d\\n' % n for n in range(40_000))[:200 << 10]\n"
        "written = ctypes.PyDLL(None).write(2, data, len(data))  # does not release the GIL\n"
        "guarded_trainings.ends()\n"
        "print(written)",
        seconds=30,
        after=1,
    )
    data = b"".join(b"%d\n" % n for n in range(40_000))[: 200 << 10].decode()
    assert cell.out == f"{200 << 10}\n"
    assert cell.err == data


def test_process_started_during_a_fit_can_write_afterwards(kernel: Kernel) -> None:
    cell = kernel.good(
        "guarded_trainings.begins()\n"
        "child = subprocess.Popen(['sh', '-c', 'sleep 1; echo late >&2'])\n"
        "guarded_trainings.ends(); write('early\\n'); child.wait()",
        after=0.5,
    )
    assert cell.err == "early\nlate\n"


_COUNTS = """
import contextlib
names = []
for fd in range(3, 200):
    with contextlib.suppress(FileNotFoundError):  # not open, or closed by a thread meanwhile
        names.append(os.readlink(f"/proc/self/fd/{fd}"))
print(sum(name.startswith("pipe:") or name.endswith("memory.log") for name in names), threading.active_count())
"""


def test_end_restores_stderr_and_leaks_no_thread_or_descriptor(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.good(SESSION.format(run=str(tmp_path / "run")) + DUMP)
        seen = []
        for _ in range(4):
            kernel.good("guarded_trainings.begins(); write(dump); session.say('words'); guarded_trainings.ends()")
            kernel.good("guarded_trainings.begins(); showing.end(); time.sleep(0.2)")
            seen.append(kernel.good(_COUNTS).out)
            plain = kernel.good("session.say('plain'); guarded_trainings.ends(); showing.begin(session)", after=0.3)
            assert plain.err == "oomph: plain\n"
        assert len(set(seen)) == 1


def test_report_is_shown_in_the_cell_if_it_cannot_be_saved(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stderr").touch()  # in the way of the folder
    with Kernel(tmp_path) as kernel:
        kernel.good(SESSION.format(run=str(tmp_path / "run")) + DUMP)
        cell = kernel.good("guarded_trainings.begins(); write(dump + 'next\\n'); guarded_trainings.ends()", after=0.5)
        assert cell.err.count("Total Chunks") == 170


def test_saved_notebook_has_the_whole_story_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # otherwise ipykernel leaves descriptor 2 alone
    fit = "guarded_trainings.begins(); session.say('guarding fit'); write(dump); print('1/1'); guarded_trainings.ends()"
    cells = [nbformat.v4.new_code_cell(code) for code in (SESSION.format(run=str(tmp_path / "run")) + DUMP, fit)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    display, *streams = notebook.cells[1].outputs
    story = display.data["text/plain"].split("\n")
    assert story[0] == "oomph: guarding fit"
    assert story[1].startswith("oomph: TensorFlow's report of the failed allocation (173 lines) is in run/stderr/")
    assert len(story) == 2
    assert [(each.name, each.text) for each in streams] == [("stdout", "1/1\n")]


def test_nothing_changes_outside_a_kernel(tmp_path: Path) -> None:
    from oomph.notebook.display import showing
    from oomph.script import session

    class Unused:
        run_dir, handover = None, None

    showing.begin(Unused())  # type: ignore[arg-type]
    assert session._write is None
    showing.end()
