"""In JupyterLab, if the kernel dies during Run All, its cell shows the diagnosis, and nothing stays busy.

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from oomph import cli

pytest.importorskip("jupyterlab")
sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright

CHROMIUM = shutil.which("chromium")
ROUNDS, LIMIT = 20, 60.0
SOURCES = ["print('one')", "import os, time; time.sleep(1); os.kill(os.getpid(), 9)", "print('three')", "print('four')"]
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
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start JupyterLab with a supervised kernel, and yield the address of a notebook that uses it."""
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    assert cli.main(["kernel", "install", "--user"]) == 0
    kernelspec = {"name": "oomph", "display_name": "Python 3 (oomph)", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in SOURCES]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    nbformat.write(notebook, tmp_path / "dies.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=", "--LabApp.news_url="]
    words = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api")
        yield f"http://127.0.0.1:{port}/lab/tree/dies.ipynb?reset"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(LIMIT)


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
def test_death_during_run_all_is_reported_and_nothing_stays_busy(address: str, tmp_path: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=1000 * LIMIT)
        time.sleep(4.0)  # until the menus work
        for number in range(ROUNDS):
            seen = _run_all(page)
            page.screenshot(path=str(tmp_path / "died.png"))
            assert seen.is_over
            assert seen.prompts == [f"[{2 * number + 1}]:", f"[{2 * number + 2}]:", "[ ]:", "[ ]:"]
            assert seen.dialogs == []
            page.click("text=Edit >> nth=0")
            page.click("text=Clear Outputs of All Cells")
        browser.close()


def _run_all(page: Any) -> Seen:
    """Run all cells, and return what is seen once they have finished, or after half a minute."""
    page.click("text=Run >> nth=0")
    page.click("text=Run All Cells >> nth=0")
    time.sleep(1.5)
    until = time.monotonic() + 30.0
    while not (seen := Seen.on(page)).is_over and time.monotonic() < until:
        time.sleep(0.2)
    return seen
