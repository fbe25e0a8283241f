"""The page of a history in a browser: narrow and wide, light and dark, over commits and dates."""

from dataclasses import replace

import pytest

from pytest_attnmem.history.page import page
from pytest_attnmem.history.project_history import Cause, TensorChange
from pytest_attnmem.history.steps import find_steps

from ...history.histories import ROW, chain, history

LONG = "x" * 300
TENSOR = TensorChange(f"+10.0 MiB  [2, 4, 512, 512] float32 clone  {LONG}.py:3 in f", "clone", 10)


@pytest.fixture
def opened(tab, tmp_path, request):
    width, scheme = request.param
    points = chain(10 << 20, 10 << 20, None, 20 << 20, 20 << 20, 15 << 20)
    points[3] = replace(points[3], subject=f"<b>Keep</b> {LONG}")
    steps = [replace(one, cause=Cause(1, 2, LONG, (TENSOR,))) for one in find_steps(points, [ROW])]
    path = tmp_path / "history.html"
    path.write_text(page(history(points, steps=tuple(steps))), "utf-8")
    made = tab(0, color_scheme=scheme)
    made.set_viewport_size({"width": width, "height": 900})
    problems: list[str] = []
    requests: list[str] = []
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    made.on("request", lambda asked: requests.append(asked.url))
    made.goto(path.as_uri())
    made.locator(".row-chart .canvas").wait_for()
    yield made
    assert problems == []
    assert requests == [path.as_uri()]


EVERY = [(width, scheme) for width in (390, 1400) for scheme in ("light", "dark")]


@pytest.mark.parametrize("opened", EVERY, indirect=True, ids=str)
def test_a_row_has_a_line_steps_and_gaps(opened):
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert opened.locator("h1").text_content() == "net"
    assert opened.locator(".row-chart .name").all_text_contents() == [ROW]
    assert opened.locator(".mark.grew").count() == opened.locator(".mark.shrank").count() == 1
    assert opened.locator(".missing").count() == 1
    assert opened.locator(".step h3").first.text_content().startswith("<b>Keep</b> xxx")
    assert "1 × ImportError: x" in opened.locator("#gaps").text_content()


@pytest.mark.parametrize("opened", EVERY[-1:], indirect=True, ids=str)
def test_a_step_leads_to_its_diff_and_the_axis_to_dates(opened):
    opened.locator(".mark.grew").click()
    assert opened.locator(".picked code").last.text_content() == "git show 3"
    opened.locator("select").first.select_option("dates")
    opened.locator(".row-chart .canvas").wait_for()
    opened.locator(".mark.shrank").focus()
    opened.keyboard.press("Enter")
    assert opened.locator(".picked code").last.text_content() == "git show 5"
    opened.locator("select").last.select_option("of 10 % or more")
    assert opened.locator(".step").count() == 2
    opened.get_by_role("button", name="Switch to light").click()
    assert opened.evaluate("document.documentElement.dataset.theme") == "light"
