"""The parts of pages that scripts write are what the scripts would write now."""

import json
from pathlib import Path
from runpy import run_path

import pytest
import torch

from pytest_attnmem.cli import COMMANDS
from pytest_attnmem.measurement.measurement import METRICS
from pytest_attnmem.plugin.options import OPTIONS
from pytest_attnmem.symbols.names import ALIASES, SYMBOLS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
SCRIPTS = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def reference():
    return run_path(str(SCRIPTS / "reference.py"))


PAGES = [ROOT / "docs" / "failures.md", *sorted(REFERENCE.glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_reference_is_current(path, reference):
    page = path.read_text(encoding="utf-8")
    assert page == reference["render"](page)


def test_each_part_is_on_a_page(reference):
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert all(pages.count(f"<!-- generated: {name} -->") == 1 for name in reference["PARTS"])


def test_the_parts_name_everything(reference):
    made = {name: make() for name, make in reference["PARTS"].items()}
    for name in (*SYMBOLS, *ALIASES):
        assert f"`{name}`" in made["symbols"]
    for option in OPTIONS:
        assert f"| `{option.flag}" in made["options"]
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        assert f"## attnmem {name}\n" in made["commands"]
    assert "GOOD..BAD [-- tests and options of pytest]`" in made["commands"]
    for metric in METRICS:
        assert f"| `{metric}_bytes` |" in made["results"]


def test_the_tables_of_models_are_current(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    script = run_path(str(SCRIPTS / "models_page.py"))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert page == script["render"](page)
    rows = [row for row in script["exact"]() if "does not fit" not in row]
    assert len(rows) == 50
    assert all(row.endswith("| 0 B | 0 B |") for row in rows[2:])


def test_the_rows_of_models_take_at_most_half_a_minute():
    for name in ("null", "simulated", "fakegpu"):
        path = SCRIPTS / "results" / f"{'' if name == 'fakegpu' else 'models.'}{name}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = found.get("rows", found)
        assert all(row["seconds"] <= 30 for row in rows.values() if "seconds" in row)


def test_the_table_of_caches_is_current():
    page = (ROOT / "docs" / "evidence" / "models.md").read_text(encoding="utf-8")
    rows = run_path(str(SCRIPTS / "caches_page.py"))["rows"]()
    assert "\n".join(rows) in page
    assert all(row.endswith(" 0 B |") for row in rows[2:])


def test_the_table_of_fakegpu_is_current_and_arithmetic_decides_it():
    script = run_path(str(SCRIPTS / "fakegpu_programs.py"))
    assert script["section"]() in (ROOT / "docs/evidence/performance.md").read_text("utf-8")
    rows = json.loads(script["RESULTS"].read_text("utf-8"))["rows"]
    for name, row in rows.items():
        null, fakecuda = row["null"]["peak_bytes"], row["fakecuda"].get("peak_bytes", 0)
        less = 0 < fakecuda < null
        assert (name in script["HELD"]) == less
        assert not less or fakecuda < script["held"](name) <= null


@pytest.mark.thorough
@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="drawn with torch 2.13")
def test_the_pictures_are_current():
    script = run_path(str(SCRIPTS / "pictures.py"))
    for name, picture in script["PICTURES"].items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == picture()


@pytest.mark.thorough
def test_the_page_of_kernels_is_current():
    page = (REFERENCE / "kernels.md").read_text(encoding="utf-8")
    assert page == run_path(str(SCRIPTS / "kernels_page.py"))["render"]()


def test_the_page_of_compiled_modules_is_current():
    page = (ROOT / "docs" / "evidence" / "compiled.md").read_text(encoding="utf-8")
    assert page == run_path(str(SCRIPTS / "compiled_page.py"))["render"]()


def test_the_table_of_devices_is_current():
    page = (REFERENCE / "devices.md").read_text(encoding="utf-8")
    assert page == run_path(str(SCRIPTS / "devices_table.py"))["render"](page)


def test_the_first_hour_is_made_of_its_results_and_each_environment_showed_what_the_pages_show():
    made = run_path(str(ROOT / "tests" / "first_hour" / "run.py"))
    found = json.loads(made["DATA"].read_text("utf-8"))
    assert made["PAGE"].read_text("utf-8") == made["page"](found)
    assert not [row["wrong"] for row in found.values() if "wrong" in row]
    assert found.keys() <= {place.name for place in made["PLACES"]} | {"machine"}


def test_the_table_of_versions_is_current_and_no_value_is_wrong():
    made = run_path(str(ROOT / "tests" / "versions" / "run.py"))
    found = json.loads(made["DATA"].read_text("utf-8"))
    assert set(found) == set(made["VERSIONS"])
    text = made["PAGE"].read_text("utf-8")
    assert made["page"](text, found) == text
    for version, parts in found.items():
        assert parts["starts"] == [True], version
        assert isinstance(parts["eager"], list), version
        assert not any(False in seen for seen in parts.values() if isinstance(seen, list)), version
