"""The row of a test that ran out of memory shows what was asked for, and no number as measured."""

import json

SUITE = """
from scripted import OutOfMemory

@pytest.mark.memory_budget("1 MiB")
def test_it():
    memory.take(60)
    raise OutOfMemory("tried to allocate 128.0 GiB at attn.py:5")

@pytest.mark.memory_budget("1 MiB")
def test_within(): memory.use(1 << 20)
"""
ASKED = "tried to allocate 128.0 GiB at attn.py:5"
REASON = f"out of memory on scripted: {ASKED} with 60 B held; budget 1.0 MiB"


def test_each_format_says_what_was_asked_for_and_shows_no_peak_and_no_share(scripted):
    files = [f"--attnmem-{kind}=rows.{kind}" for kind in ("markdown", "html")]
    ran = scripted.tests(SUITE).run("--attnmem-report", *files)
    lines = ran.result.outlines
    (line,) = (line for line in lines if line.startswith("test_suite.py::test_it"))
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == [
        "test_suite.py::test_it",
        "scripted",
        "1.0 MiB",
        "out of memory",
        "over",
    ]
    assert f"over  test_suite.py::test_it: {REASON}" in lines

    assert ran.row("test_it")["out_of_memory"] == ASKED
    assert ran.row("test_within")["out_of_memory"] == ""

    markdown = (scripted.path / "rows.markdown").read_text("utf-8")
    row = "| `test_suite.py::test_it` |  | `scripted` | 1.0 MiB | out of memory |  | **over** |"
    assert row in markdown

    page = (scripted.path / "rows.html").read_text("utf-8")
    data = page.partition('type="application/json">')[2].partition("</script>")[0]
    (row,) = (row for row in json.loads(data)["rows"] if row["nodeid"].endswith("test_it"))
    assert row["out_of_memory"] == ASKED
    assert "<td>1.0 MiB</td><td></td><td>over</td>" in page
