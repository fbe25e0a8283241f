"""The page of a history: its data is text, and it loads nothing."""

import json
import re
from dataclasses import replace

from pytest_attnmem.history.page import page
from pytest_attnmem.history.steps import find_steps

from .histories import ROW, chain, history


def test_the_page_has_runs_of_equal_bytes_and_reasons():
    points = chain(10, 10, None, 12)
    points[0] = replace(points[0], subject="</script><b>x", author="<i>")
    text = page(history(points, steps=tuple(find_steps(points, [ROW]))))
    data = json.loads(re.search(r'id="data" type="application/json">(.*?)</script>', text)[1])  # type: ignore[index]
    assert data["rows"] == [
        {"name": ROW, "runs": [[0, 10], [2, None], [3, 12]], "gaps": {"2": "ImportError: x"}}
    ]
    assert data["commits"][0] == ["0", "2026-01-01", "<i>", "</script><b>x"]
    [step] = data["steps"]
    assert (step["row"], step["at"], step["share"], step["delta"]) == (0, 3, 20.0, "+2 B, +20.0 %")
    assert data["notes"][-1].startswith("Each commit ran its own code")
    assert "<b>x" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
