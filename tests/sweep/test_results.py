"""The JSON of a sweep: it comes back as it was, and what is none is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.peak_components import Component
from pytest_attnmem.sweep.results import ERROR, OOM, load, render


@pytest.fixture
def written(tmp_path):
    def path(text):
        (tmp_path / "sweep.json").write_text(text, encoding="utf-8")
        return tmp_path / "sweep.json"

    return path


def test_it_comes_back_as_it_was(row, sweep, written):
    part = Component("scores", 64, 1, "O(B·N²)", "4*B*N^2")
    made = sweep(
        row("textbook", 64, before=1, peak=2, forward_ms=0.5, components=(part,)),
        row("textbook", 128, status=OOM, reason="needs 2.0 GiB more in the forward pass"),
        row("flash", 64, status=ERROR, by="", reason="…"),
        complete=False,
        longest=({"kernel": "textbook", "d": 16, "N": 64, "peak_bytes": 1},),
    )
    path = written(render(made))
    assert load(path) == made
    data = json.loads(path.read_text("ascii"))
    assert data["schema"] == 1
    data["rows"][0]["colour"] = "red"  # by a newer version
    assert load(written(json.dumps(data))) == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "it is not JSON: Expecting property name"),
        ("[]", "it is not a JSON file of attnmem sweep"),
        ('{"schema": 1, "results": []}', "it is not a JSON file of attnmem sweep"),
        ('{"kind": "attnmem sweep", "schema": 2}', "its schema is 2, this version reads 1"),
        ('{"kind": "attnmem sweep", "schema": 1}', "KeyError: 'parameters'"),
        ('{"kind": "attnmem sweep", "schema": 1, "parameters": 3}', "TypeError: "),
    ],
)
def test_what_is_no_sweep_is_refused(written, text, message):
    path = written(text)
    with pytest.raises(AttnMemError) as caught:
        load(path)
    assert str(caught.value).startswith(f"cannot read {path}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "change", "why"),
    [
        ("row", {"N": "64"}, "ValueError: N='64' is not of type int"),
        ("row", {"components": [{}]}, "KeyError: 'name'"),
        ("row", {"components": 3}, "ValueError: components=3 is not of type tuple[Component, ...]"),
        ("row", {"kernel": None}, "ValueError: kernel=None is not of type str"),
        ("row", {"B": True}, "ValueError: B is True"),
        ("row", {"peak_bytes": "3"}, "ValueError: peak_bytes='3' is not of type int | None"),
        ("row", {"forward_ms": []}, "ValueError: forward_ms=[] is not of type float | None"),
        ("row", {"forward_ms": 10**400}, "ValueError: forward_ms=1000"),
        ("parameters", {"memory_bytes": "8"}, "ValueError: memory_bytes='8' is not of type int | "),
        ("batch", {}, "KeyError: 'batch'"),
    ],
)
def test_a_row_or_parameters_that_are_none_are_refused(row, sweep, written, part, change, why):
    data = json.loads(render(sweep(row("textbook", 64))))
    (data["rows"][0] if part == "row" else data["parameters"]).update(change)
    data["parameters"].pop(part, None)
    path = written(json.dumps(data))
    with pytest.raises(AttnMemError) as caught:
        load(path)
    assert str(caught.value).startswith(f"cannot read {path}: {why}")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(AttnMemError) as caught:
        load(Path("/dev/zero"))
    assert str(caught.value) == "cannot read /dev/zero: it is a device; name a file"
    with pytest.raises(AttnMemError, match=r"none\.json: No such file or directory$"):
        load(tmp_path / "none.json")


def test_lines_are_by_kernel_and_width_in_order_of_length(row, sweep):
    rows = [row(name, N, d) for name in ("flash", "linear") for d in (16, 8) for N in (64, 32)]
    made = sweep(*rows)
    assert made.kernels == ("flash", "linear")
    assert list(made.lines()) == [("flash", 16), ("flash", 8), ("linear", 16), ("linear", 8)]
    assert [one.N for one in made.lines()["flash", 8]] == [32, 64]
    assert rows[0].key == replace(rows[0], peak_bytes=3).key != rows[1].key
