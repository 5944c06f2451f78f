"""Takes docs/tutorial/report.png, the report of the tutorial's run: out of memory, killed, finished. `make picture`.

Needs Chromium, and trains for a minute and a half.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from oomph import cli
from oomph.demo.children import run_killed
from oomph.demo.scenario import FLOAT32, environment, script_path

PICTURE = Path(__file__).parents[2] / "docs" / "tutorial" / "report.png"
KILL_AT = 150
WIDTH = 1040
COLOURS = 128
"""Enough for a page of few colours, whose letters keep their smooth edges."""


def train(folder: Path) -> Path:
    """Train the tutorial's script in too little memory, kill it halfway, and return its report."""
    shutil.copy(script_path(), folder)
    os.chdir(folder)  # so that the report names the script as the tutorial does
    words = ["run", "--run-dir=run", "--checkpoint-every=10", "digits.py", "--epochs", "60"]
    command = [sys.executable, "-m", "oomph", *words]
    ended, killed = run_killed(
        command, Path("run"), KILL_AT, environment(os.environ, FLOAT32.limit_mb), Path("log"), print
    )
    assert (ended.returncode, killed) == (0, True), Path("log").read_text()
    assert cli.main(["report", "run"]) == 0
    return folder / "run" / "report.html"


def screenshot(report: Path) -> bytes:
    """Return the page down to its first chart, as PNG."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector(".u-over")
        end = page.evaluate("document.querySelector('.plot').getBoundingClientRect().bottom")
        taken: bytes = page.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": end})
        browser.close()
    return taken


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as found:
        taken = screenshot(train(Path(found).resolve()))
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")
