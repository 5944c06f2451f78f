"""A supervised kernel in JupyterLab: deaths, lack of memory and the menus' commands, as a user sees them.

Each test leaves screenshots in its folder.
Needs Chromium (`apt install chromium`), and JupyterLab and playwright, which oomph's environment does not contain:
`pip install jupyterlab playwright`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from oomph import cli

pytest.importorskip("jupyterlab")
sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright

CHROMIUM = shutil.which("chromium")
ROUNDS, LIMIT = 20, 60.0
Opens = Callable[[list[str]], Any]
DIES = ["print('one')", "import os, time; time.sleep(1); os.kill(os.getpid(), 9)", "print('three')", "print('four')"]
LACKS_MEMORY = [
    """import os, time, keras, numpy as np
keras.config.set_floatx("float64")
keras.utils.set_random_seed(2)
x, y = np.random.random((4096, 64)), np.random.random((4096, 1))
layers = [keras.layers.Dense(6000, "relu"), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((64,)), *layers])
model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)""",
    "history = model.fit(x, y, batch_size=2048, epochs=1, shuffle=False)",
    "time.sleep(60)",
]
POOL = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "140", "TF_ENABLE_ONEDNN_OPTS": "0"}
STDERR = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


@dataclass(frozen=True)
class Seen:
    """What a user sees of a notebook."""

    prompts: list[str]
    outputs: list[str]
    indicator: str
    dialogs: list[str]

    @classmethod
    def on(cls, page: Any) -> Seen:
        def texts(selector: str) -> list[str]:
            return [each.inner_text() for each in page.query_selector_all(selector)]

        return cls(
            texts(".jp-CodeCell .jp-InputPrompt"),
            texts(".jp-CodeCell .jp-OutputArea"),
            page.eval_on_selector(".jp-Notebook-ExecutionIndicator", "element => element.dataset.status"),
            texts(".jp-Dialog"),
        )

    @property
    def is_over(self) -> bool:
        return (
            self.indicator == "idle" and "killed" in self.outputs[1] and not any("*" in each for each in self.prompts)
        )


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Start JupyterLab with a supervised kernel, and yield a function that opens a notebook with these cells."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name, value in POOL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # below pytest, ipykernel does not capture what other processes print
    assert cli.main(["kernel", "install", "--user"]) == 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=", "--LabApp.news_url="]
    words = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            yield lambda sources: _open(page, f"http://127.0.0.1:{port}/lab/tree/it.ipynb?reset", tmp_path, sources)
            browser.close()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(LIMIT)


def _open(page: Any, address: str, folder: Path, sources: list[str]) -> Any:
    kernelspec = {"name": "oomph", "display_name": "Python 3 (oomph)", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), folder / "it.ipynb")
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=1000 * LIMIT)
    time.sleep(4.0)  # until the menus work
    return page


def _wait_for(address: str) -> None:
    until = time.monotonic() + LIMIT
    while True:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except (urllib.error.URLError, TimeoutError):
            assert time.monotonic() < until, "JupyterLab does not start"
            time.sleep(0.2)


@pytest.mark.timeout(600)
def test_death_during_run_all_is_reported_and_nothing_stays_busy(opened: Opens, tmp_path: Path) -> None:
    page = opened(DIES)
    for number in range(ROUNDS):
        seen = _run_all(page)
        page.screenshot(path=str(tmp_path / "died.png"))
        assert seen.is_over
        assert seen.prompts == [f"[{2 * number + 1}]:", f"[{2 * number + 2}]:", "[ ]:", "[ ]:"]
        assert seen.dialogs == []
        page.click("text=Edit >> nth=0")
        page.click("text=Clear Outputs of All Cells")


@pytest.mark.timeout(600)
def test_menus_work_and_lack_of_memory_is_shown_before_and_after_a_restart(opened: Opens, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    page = opened(LACKS_MEMORY)
    for name in ("first", "restarted"):
        for cell in (0, 1):
            _run_cell(page, cell)
        _wait_until(lambda: Seen.on(page).prompts[:2] == ["[1]:", "[2]:"], "the cells do not end")
        page.screenshot(path=str(tmp_path / f"{name}.png"))
        seen = Seen.on(page)
        assert "out of memory at batch 2048" in seen.outputs[1]
        assert seen.outputs[1].partition("fit 1 (")[2].partition("\n")[0].endswith("; exact")
        assert "oomph" not in "".join(each.inner_text() for each in page.query_selector_all(STDERR))

        _run_cell(page, 2)
        time.sleep(2.0)
        _command(page, "Interrupt Kernel")
        _wait_until(lambda: "KeyboardInterrupt" in Seen.on(page).outputs[2], "the cell is not interrupted")
        page.screenshot(path=str(tmp_path / f"{name}-interrupted.png"))
        _command(page, "Restart Kernel and Clear Outputs of All Cells")
        page.click(".jp-Dialog .jp-mod-accept")
        _wait_until(lambda: not any(Seen.on(page).outputs), "the outputs are not cleared")
    supervisors = _supervisors(tmp_path)
    assert len(supervisors) == 1
    _command(page, "Shut Down Kernel")
    _wait_until(lambda: not any(each.is_running() for each in supervisors), "the supervisor outlives the kernel")
    assert _supervisors(tmp_path) == []


def _run_cell(page: Any, number: int) -> None:
    page.click(f".jp-CodeCell >> nth={number} >> .cm-content")
    page.keyboard.press("Shift+Enter")


def _command(page: Any, text: str) -> None:
    """Choose a command of the menu Kernel."""
    page.click("text=Kernel >> nth=0")
    page.click(f".lm-Menu-itemLabel:text('{text}') >> nth=0")


def _supervisors(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and "oomph.notebook.kernel" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def _wait_until(true: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.2)


def _run_all(page: Any) -> Seen:
    """Run all cells, and return what is seen once they have finished, or after half a minute."""
    page.click("text=Run >> nth=0")
    page.click("text=Run All Cells >> nth=0")
    time.sleep(1.5)
    until = time.monotonic() + 30.0
    while not (seen := Seen.on(page)).is_over and time.monotonic() < until:
        time.sleep(0.2)
    return seen
