"""The page in Chromium: it opens, hovers, zooms, switches curves, leads to incidents, prints, and is accessible.

Needs `pip install playwright axe-playwright-python` and Chromium; `make browser` runs it. The screenshots are kept.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import BEGIN, sample, samples, survived
from recorded_workers import several

from oomph import cli

sync_playwright = pytest.importorskip("playwright.sync_api").sync_playwright
Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
KEPT = Path("build") / "report"
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")
LIMIT = 20_000
"""The longest time for one action, in milliseconds."""
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LIMIT)
        yield browser
        browser.close()


@pytest.fixture(scope="module", name="report")
def _report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = survived(tmp_path_factory.mktemp("runs") / "run")
    assert cli.main(["report", str(run)]) == 0
    return run / "report.html"


class Opened:
    """A page, and what it did that no page of ours should do."""

    def __init__(self, browser: Any, report: Path, **context: Any) -> None:
        self.page = browser.new_page(**context)
        self.page.set_default_timeout(LIMIT)
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._requested)
        self._address = report.as_uri()
        self.page.goto(self._address)

    def _requested(self, request: Any) -> None:
        if request.url != self._address:
            self.wrong.append(f"request: {request.url}")

    def figures(self, chart: str) -> list[str]:
        """The values under the cursor, as the legend of a chart shows them."""
        return [each.inner_text() for each in self.page.query_selector_all(f"#chart-{chart} .legend button b")]

    def flags(self) -> list[int]:
        """The number of faults within the part that each chart shows."""
        plots = self.page.query_selector_all(".plot")
        return [len(plot.query_selector_all(".flag")) for plot in plots]


@pytest.fixture(name="opened")
def _opened(browser: Any, report: Path) -> Iterator[Opened]:
    opened = Opened(browser, report, viewport={"width": 1280, "height": 900})
    yield opened
    assert opened.wrong == []
    opened.page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_page_opens_without_an_error_a_request_or_an_obstacle_and_fits(browser, report, width, scheme):
    opened = Opened(browser, report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened.page.wait_for_selector(".u-over")
    KEPT.mkdir(parents=True, exist_ok=True)
    opened.page.screenshot(path=str(KEPT / f"{width}-{scheme}.png"), full_page=True)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
    opened.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = Axe().run(opened.page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    assert opened.wrong == []
    opened.page.close()


def test_hovering_shows_the_values_at_that_time_in_all_charts(opened):
    assert opened.figures("pool")[1:] == ["12 GiB", "14 GiB"], "before, the last values"
    assert "last values" in opened.page.locator("#chart-pool .legend.live").inner_text()
    opened.page.hover("#chart-pool .u-over", position={"x": 300, "y": 100})
    in_use, peak, limit = opened.figures("pool")
    assert in_use.endswith("GiB")
    assert (peak, limit) == ("12 GiB", "14 GiB")
    assert opened.figures("step-time") == ["320 ms"], "the cursors move together"


def test_dragging_zooms_all_charts_and_a_double_click_shows_everything(opened):
    before = opened.flags()
    assert set(before) == {2}
    area = opened.page.query_selector("#chart-gpu-memory .u-over")
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 50)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=5)
    opened.page.mouse.up()
    assert set(opened.flags()) == {0}, "no fault happened in that part"
    opened.page.mouse.dblclick(box["x"] + 50, box["y"] + 50)
    assert opened.flags() == before


def test_button_shows_everything_again_and_is_there_only_while_it_helps(opened):
    button = opened.page.locator("#whole")
    assert button.is_hidden()
    opened.page.focus("#chart-loss .plot")
    for _ in range(4):
        opened.page.keyboard.press("+")
    assert set(opened.flags()) == {0}
    button.click()
    assert set(opened.flags()) == {2}
    assert button.is_hidden()


def test_faults_are_numbered_as_their_incidents(opened):
    for dots in (".timeline .fault", "#chart-loss .flag"):
        assert opened.page.locator(dots).all_inner_texts() == ["1", "2"]
    assert opened.page.locator("#incident-2 h3").inner_text().startswith("2. killed")


def test_curve_stands_out_while_its_name_is_pointed_at(opened):
    def ink() -> str:
        return str(opened.page.evaluate("document.querySelector('#chart-pool canvas').toDataURL()"))

    before = ink()
    opened.page.locator("#chart-pool .legend.live button").first.hover()
    opened.page.wait_for_function(
        "before => document.querySelector('#chart-pool canvas').toDataURL() !== before", arg=before
    )


def places(opened: Opened) -> tuple[list[float], list[float]]:
    """The x coordinates of the faults in the bars of the attempts, and of those in a chart."""
    script = "all => all.filter(each => !each.hidden).map(each => { const box = each.getBoundingClientRect();"
    script += " return box.left + box.width / 2; })"
    bars, flags = (opened.page.eval_on_selector_all(f"{name}", script) for name in (".fault", "#chart-loss .flag"))
    return sorted(bars), sorted(flags)


@pytest.mark.parametrize("width", WIDTHS)
def test_bars_of_the_attempts_share_the_axis_of_the_charts_also_when_zoomed(browser, report, width):
    opened = Opened(browser, report, viewport={"width": width, "height": 900})
    opened.page.wait_for_selector("#chart-loss .flag")
    bars, flags = places(opened)
    assert len(bars) == 2
    assert bars == pytest.approx(flags, abs=1.5)
    ticks = opened.page.locator(".timeline .clock").inner_text()
    opened.page.focus("#chart-loss .plot")
    opened.page.keyboard.press("+")
    opened.page.keyboard.press("-")
    opened.page.keyboard.press("+")
    opened.page.wait_for_function("document.querySelectorAll('.fault[hidden]').length === 1")
    bars, flags = places(opened)
    assert len(bars) == 1
    assert bars == pytest.approx(flags, abs=1.5)
    assert opened.page.locator(".timeline .clock").inner_text() != ticks
    assert opened.wrong == []
    opened.page.close()


def test_axis_begins_with_the_run_and_not_with_its_first_sample(browser, tmp_path):
    run = survived(tmp_path / "run", begin_of_samples=60)
    assert cli.main(["report", str(run)]) == 0
    opened = Opened(browser, run / "report.html", viewport={"width": 1280, "height": 900})
    opened.page.wait_for_selector("#chart-loss .flag")
    area = opened.page.locator("#chart-loss .u-over").bounding_box()
    _, flags = places(opened)
    shares = [(at - area["x"]) / area["width"] for at in flags]
    assert shares == pytest.approx([20 / 300, 100 / 300], abs=0.005)
    opened.page.close()


def test_keyboard_moves_the_cursor_and_zooms(opened):
    opened.page.focus("#chart-loss .plot")
    opened.page.keyboard.press("ArrowRight")
    first = opened.figures("loss")
    opened.page.keyboard.press("ArrowRight")
    assert first[0]
    assert opened.figures("loss") != first
    for _ in range(4):
        opened.page.keyboard.press("+")
    assert set(opened.flags()) == {0}
    opened.page.keyboard.press("0")
    assert set(opened.flags()) == {2}


def test_curve_is_switched_off_and_on_by_its_button(opened):
    button = opened.page.locator("#chart-pool .legend button").first

    def ink() -> str:
        return str(opened.page.evaluate("document.querySelector('#chart-pool canvas').toDataURL()"))

    before = ink()
    button.press("Enter")
    assert button.get_attribute("aria-pressed") == "false"
    opened.page.wait_for_function(
        "before => document.querySelector('#chart-pool canvas').toDataURL() !== before", arg=before
    )
    button.click()
    opened.page.mouse.move(0, 0)
    assert button.get_attribute("aria-pressed") == "true"
    opened.page.wait_for_function(
        "before => document.querySelector('#chart-pool canvas').toDataURL() === before", arg=before
    )


@pytest.mark.parametrize("origin", ["#chart-pool .flag", ".timeline .fault"])
def test_fault_in_a_chart_or_in_the_timeline_leads_to_its_incident(opened, origin):
    opened.page.locator(origin).first.click()
    assert opened.page.evaluate("location.hash") == "#incident-1"
    assert opened.page.locator("#incident-1").is_visible()
    opened.page.locator("#incident-1 h3 a").click()
    assert opened.page.evaluate("location.hash") == "#fault-OOM101"


def test_page_prints_with_pictures_in_light_colours(browser, report, tmp_path):
    opened = Opened(browser, report, color_scheme="dark")
    printed = opened.page.pdf()
    assert printed.startswith(b"%PDF")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#chart-pool .still svg").is_visible()
    assert not opened.page.locator("#chart-pool .plot").is_visible()
    assert opened.page.get_by_text("Drag in a chart").is_hidden()
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    opened.page.close()


def test_page_shows_its_charts_without_scripts(browser, report):
    opened = Opened(browser, report, java_script_enabled=False)
    assert opened.page.locator("#chart-pool .still svg").is_visible()
    assert not opened.page.locator("#chart-pool .plot").is_visible()
    opened.page.close()


@pytest.mark.slow
@pytest.mark.alone
def test_day_of_eight_gpus_opens_within_a_second(browser, tmp_path):
    run = survived(tmp_path / "run")
    sample(run, samples(86_400, gpus=8, begin=BEGIN + 300))
    assert cli.main(["report", str(run)]) == 0
    Opened(browser, run / "report.html").page.close()  # warms the browser up
    began = time.monotonic()
    opened = Opened(browser, run / "report.html")
    opened.page.wait_for_selector("#chart-loss .u-over")
    assert time.monotonic() - began < 1
    assert opened.wrong == []
    opened.page.close()


@pytest.mark.parametrize(("count", "width", "scheme"), [(2, 400, "dark"), (8, 1280, "dark"), (64, 1280, "light")])
def test_lanes_of_workers_fit_are_accessible_and_follow_the_zoom(browser, tmp_path, count, width, scheme):
    run = several(tmp_path / "run", count, late={1: 0.29}, hung=count - 1)
    assert cli.main(["report", str(run)]) == 0
    opened = Opened(browser, run / "report.html", viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = opened.page
    page.wait_for_selector(".u-over")
    KEPT.mkdir(parents=True, exist_ok=True)
    page.locator("#workers").screenshot(path=str(KEPT / f"workers-{count}-{width}-{scheme}.png"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut off"
    assert page.locator("#workers .lane").count() == count
    assert page.locator("#workers").bounding_box()["height"] < 1100, "no wall of charts"
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    whole = page.evaluate("document.querySelector('.lane svg').getBoundingClientRect().width")
    page.locator(".plot").first.focus()
    page.keyboard.press("+")
    page.wait_for_timeout(300)
    zoomed = page.evaluate("document.querySelector('.lane svg').getBoundingClientRect().width")
    assert zoomed > 1.2 * whole, "a lane is moved as one picture, of which a part is seen"
    assert opened.wrong == []
    page.close()
