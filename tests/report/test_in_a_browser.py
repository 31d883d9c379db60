"""The site in use: by keyboard, by screen readers, on narrow screens, in the dark, and without delay."""

import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from browser import Browser, browser_program

from made_once import made_once
from shown_results import written_site

pytestmark = pytest.mark.slow

AXE = files("axe_core_python") / "axe.min.js"
WIDE, NARROW = (1280, "light"), (400, "dark")
NEAR_CHARTS = "[...document.querySelectorAll('.chart')].filter(c => c.getBoundingClientRect().top < 900)"
DRAWN = f"""new Promise(done => {{
  const look = () => {NEAR_CHARTS}.every(c => c.querySelector('svg')) ? done(true) : setTimeout(look, 20);
  look();
}})"""
VIOLATIONS = """axe.run().then(found => found.violations.map(
  each => `${each.id}: ${each.nodes.map(node => node.target + ' ' + node.failureSummary).join('; ')}`))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = browser_program()
    if program is None:
        pytest.skip("there is no Chromium on the path")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once("painted-site", written_site, tmp_path_factory) / "site"


@pytest.mark.parametrize("view", [WIDE, NARROW])
def test_pages_have_no_faults_that_axe_finds_and_fit_the_window(
    site: Path, browser: Browser, view: tuple[int, str]
) -> None:
    axe = AXE.read_text()
    for page in sorted(site.glob("*.html")):
        browser.open(page, *view)
        assert browser.evaluate(DRAWN)
        browser.evaluate(axe)
        assert browser.evaluate(VIOLATIONS) == [], page.name
        assert browser.evaluate("document.documentElement.scrollWidth") <= view[0], page.name


def test_all_is_reached_by_keyboard(site: Path, browser: Browser) -> None:
    browser.open(site / "figure-1.html", *NARROW)
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    browser.press("Tab")
    assert browser.evaluate("document.activeElement.textContent") == "All pages"
    assert not browser.evaluate("document.getElementById('menu').open")
    browser.press("Enter", "\r")
    assert browser.evaluate("document.getElementById('menu').open")
    browser.press("Tab")
    browser.press("Enter", "\r")
    deadline = time.monotonic() + 20
    while not (at_overview := _path(browser).endswith("index.html")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert at_overview


def _path(browser: Browser) -> str:
    try:
        return str(browser.evaluate("location.pathname"))
    except RuntimeError:  # between two pages there is none to ask
        return ""


def test_the_dark_scheme_is_dark_and_a_wide_window_shows_all_pages(site: Path, browser: Browser) -> None:
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    browser.open(site / "index.html", 1280, "light")
    assert min(browser.evaluate(shade)) > 240
    assert browser.evaluate("document.getElementById('menu').open")
    browser.open(site / "index.html", 1280, "dark")
    assert max(browser.evaluate(shade)) < 40
