"""The page of a user's first hour in the environments that people have."""

import json
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_of_the_results_and_each_environment_showed_what_the_pages_show():
    made = run_path(str(ROOT / "tests" / "first_hour" / "run.py"))
    found = json.loads(made["DATA"].read_text("utf-8"))
    assert made["PAGE"].read_text("utf-8") == made["page"](found)
    assert not [row["wrong"] for row in found.values() if "wrong" in row]
    assert found.keys() <= {place.name for place in made["PLACES"]} | {"machine"}
