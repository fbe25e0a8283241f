"""The table of the versions of PyTorch that the null device runs on."""

import json
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[2]


def test_the_table_is_made_of_the_results():
    made = run_path(str(ROOT / "tests" / "versions" / "run.py"))
    found = json.loads(made["DATA"].read_text("utf-8"))
    assert set(found) == set(made["VERSIONS"])
    text = made["PAGE"].read_text("utf-8")
    assert made["page"](text, found) == text


def test_no_value_is_wrong_and_each_version_starts():
    made = run_path(str(ROOT / "tests" / "versions" / "run.py"))
    found = json.loads(made["DATA"].read_text("utf-8"))
    for version, parts in found.items():
        assert parts["starts"] == [True], version
        assert isinstance(parts["eager"], list), version
        assert not any(False in seen for seen in parts.values() if isinstance(seen, list)), version
