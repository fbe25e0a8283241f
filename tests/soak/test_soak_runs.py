"""``tests/soak/run.py`` finds a red run, and a row with other bytes."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("soak_run", Path(__file__).parent / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)
ROW = {("test_a", "", "peak", 1): (8, 512, None, 0, "within")}
MORE = {("test_a", "", "peak", 1): (9, 512, None, 0, "within")}


@pytest.mark.parametrize(
    ("results", "wrong", "last"),
    [
        ([(0, ROW), (0, ROW)], 0, "cpu: 2 runs of 1 rows, 0 red, 0 other"),
        ([(0, ROW), (1, ROW)], 1, "cpu: 2 runs of 1 rows, 1 red, 0 other"),
        ([(0, ROW), (0, MORE)], 1, "cpu: 2 runs of 1 rows, 0 red, 1 other"),
        ([(0, ROW), (0, {})], 1, "cpu: 2 runs of 1 rows, 0 red, 1 other"),
    ],
)
def test_a_red_run_and_other_bytes_are_counted(monkeypatch, capsys, results, wrong, last):
    parallel = []

    def given(python, backend, seed, parallel_run):
        parallel.append(parallel_run)
        return results[seed]

    monkeypatch.setattr(run, "rows", lambda *args, parallel: given(*args, parallel))
    assert run.soak("python", "cpu", len(results)) == wrong
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert parallel == [False, True]
