"""Opens pages in a headless Chromium, if there is one."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_attnmem.report.html import render
from pytest_attnmem.report.summary import summarise

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
#: Turns off what the browser does on its own, above all over a network.
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@dataclass
class Shown:
    """A page in the browser, and its errors and requests."""

    page: Any
    address: str
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Returns the tests in the table, in their order."""
        return self.page.locator(".row .opener").all_text_contents()

    def row(self, text: str) -> Any:
        """Returns the row with this text."""
        return self.page.locator(".row", has_text=text)

    def open(self, text: str) -> Any:
        """Opens the details of that row and returns them."""
        self.row(text).locator(".opener").click()
        self.wait_for_charts()
        return self.page.locator("tr.more")

    def wait_for_charts(self) -> None:
        """Returns when each chart is drawn, which a browser does when it has laid out the page."""
        # Not wait_for_function, which polls by eval: the page's policy forbids that.
        self.page.locator(".drawing:not(:has(*))").first.wait_for(state="detached")

    def overflow(self) -> int:
        """Returns the pixels by which the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    """Yields a function that returns the tab of a number and of options, in one browser.

    The browser is for a module: no test can have its own event loop while playwright runs. Tests
    share its tabs: to start the process of a new one takes most of the time of a test.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(f"there is no browser: none of {', '.join(CHROMIUM)}")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=found, args=[*ARGUMENTS])
        yield cache(lambda number, **options: launched.new_context(**options).new_page())
        launched.close()


@pytest.fixture
def show(tab: Any, tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    """Yields a function that opens the page of rows from disk; fails if the page had an error."""
    opened: list[tuple[Shown, dict[str, Any]]] = []

    def shown(*rows: Any, fragment: str = "", viewport: Any = DESKTOP, **options: Any) -> Shown:
        path = tmp_path / f"report{len(opened)}.html"
        text = render(summarise(rows), {"python": "3.12", "torch": "2.13.0"})
        path.write_text(text, "utf-8", errors="backslashreplace")
        page = tab(len(opened), offline=True, **options)
        page.set_viewport_size(viewport)
        page.mouse.move(0, 0)
        made = Shown(page, path.as_uri())
        listeners = {
            "console": lambda message: made.problems.append(message.text),
            "pageerror": lambda error: made.problems.append(str(error)),
            "dialog": lambda dialog: (made.problems.append(dialog.message), dialog.dismiss()),
            "request": lambda request: made.requests.append(request.url),
        }
        opened.append((made, listeners))
        for event, listener in listeners.items():
            page.on(event, listener)
        page.goto(made.address + fragment)
        made.wait_for_charts()
        return made

    yield shown
    for made, listeners in opened:
        for event, listener in listeners.items():
            made.page.remove_listener(event, listener)
    for made, _ in opened:
        assert made.problems == []
        assert [url.partition("#")[0] for url in made.requests] == [made.address]
