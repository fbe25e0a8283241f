"""The histories of libraries: the page shows what was measured, and x-transformers as known."""

import json
from pathlib import Path

from tests.history.libraries import LIBRARIES, PROGRAMS
from tests.history.libraries_page import DATA, NOTES, PAGE, render

FOUND = json.loads(DATA.read_text("utf-8"))


def test_the_page_is_current():
    page = PAGE.read_text("utf-8")
    assert page == render(page)


def test_every_program_belongs_to_a_library():
    assert {library.program for library in LIBRARIES} == {
        path.stem for path in Path(PROGRAMS).glob("*.py")
    }
    assert FOUND.keys() <= {library.name for library in LIBRARIES}


def test_notes_are_of_steps():
    for name, notes in json.loads(NOTES.read_text("utf-8")).items():
        assert {*filter(None, notes)} <= {step["sha"][:7] for step in FOUND[name]["large"]}


def test_the_steps_of_x_transformers_are_those_that_are_known():
    """The bytes of an earlier program of 45 lines, which was no part of this package."""
    steps = {
        step["sha"][:7]: step["rows"].get("plain") for step in FOUND["x-transformers"]["large"]
    }
    assert {sha: plain for sha, plain in steps.items() if plain} == {
        "25dee85": [62_183_432, 86_585_344, True],
        "64ee68b": [86_585_344, 62_183_432, True],
        "746aebe": [62_183_432, 82_366_464, True],
        "0a8fc9b": [82_627_584, 93_895_680, True],
        "8f886d7": [93_895_680, 82_627_584, True],
        "aac3d6d": [82_623_488, 99_400_704, True],
        "b1c6339": [98_352_128, 115_391_488, True],
        "a6aed07": [115_915_776, 98_876_416, True],
        "c0b0267": [102_544_384, 83_687_424, True],
    }
    assert FOUND["x-transformers"]["measured"] == 663
