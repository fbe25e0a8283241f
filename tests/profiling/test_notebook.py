"""The example notebook: its cells run, print the kept outputs, and show its claims."""

import ast
import contextlib
import io
import json
import linecache
from pathlib import Path

import pytest
from matplotlib.figure import Figure

PATH = Path(__file__).parents[2] / "examples" / "memory_profiling.ipynb"
CELLS = json.loads(PATH.read_text("utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """Returns the final names, the output and the value of each cell, and the folder."""
    folder = tmp_path_factory.mktemp("notebook")
    names, printed, shown = {"__name__": "__main__"}, [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for cell in CODE:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                shown.append(_run(cell, names))
            printed.append(out.getvalue())
    return names, printed, shown, folder


def _run(cell, names):
    """Runs one cell as Jupyter does; returns the value of its last expression."""
    lines = "".join(cell["source"]).splitlines(keepends=True)
    source = "".join("\n" if line.startswith("%") else line for line in lines)
    where = f"{PATH.name}:{cell['id']}"
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    tree = ast.parse(source, where)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return last and eval(compile(ast.Expression(last.value), where, "eval"), names)


def test_it_prints_what_is_kept_in_it_and_shows_three_figures(notebook):
    _, printed, shown, _ = notebook
    assert sum(isinstance(one, Figure) for one in shown) == 3
    kept = ["".join("".join(output["text"]) for output in cell["outputs"]) for cell in CODE]
    assert printed == kept
    assert sum(map(bool, kept)) == 7


def test_it_keeps_nothing_but_text():
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream"}
    assert {output["name"] for output in outputs} == {"stdout"}
    assert {cell["execution_count"] for cell in CODE} == {None}
    assert PATH.stat().st_size < 30_000


def test_it_keeps_rows_and_figures(notebook):
    *_, folder = notebook
    assert {path.name for path in (folder / "results").iterdir()} == {
        *("memory_profiling.csv", "memory_scaling.png", "memory_savings.svg")
    }
    *_, last = (folder / "results/memory_profiling.csv").read_text().splitlines()
    assert last.startswith("32768,402653184,OOM,")


def test_standard_attention_grows_as_n_squared_and_linear_as_n(notebook):
    rows = {row.seq_len: row.peaks for row in notebook[0]["rows"]}
    quadratic, linear, causal = (
        rows[16384][kernel].theoretical_bytes / rows[8192][kernel].theoretical_bytes
        for kernel in ("standard", "linear", "linear-causal")
    )
    assert quadratic == pytest.approx(4, rel=0.01)
    assert (linear, causal) == (pytest.approx(2, rel=0.01), pytest.approx(2, rel=0.01))
    assert "OOM" in notebook[1][4]
    # Only the linear kernel differs from the theory, by the scratch of a sum.
    for peaks in rows.values():
        for kernel, peak in peaks.items():
            if kernel != "linear" and peak.measured_bytes is not None:
                assert peak.measured_bytes == peak.theoretical_bytes
    linear = [peaks["linear"] for peaks in rows.values()]
    assert any(peak.measured_bytes > peak.theoretical_bytes for peak in linear)


def test_the_dilemma_turns_at_half_of_d_squared(notebook):
    crossing = notebook[0]["crossing"]
    worse = {N: at["linear_causal_peak"] > at["standard_peak"] for N, at in crossing.items()}
    assert worse == {1024: True, 2048: True, 4096: False}


def test_each_solution_takes_less_than_the_cumulative_sum(notebook):
    dilemma = dict(notebook[0]["dilemma"])
    for measured, closed_form, *_ in dilemma.values():
        assert measured == closed_form
    standard, cumulative = dilemma.pop("standard"), dilemma.pop("linear-causal")
    assert cumulative[0] > 7 * standard[0]
    assert [*dilemma] == ["linear-chunked", "linear-recurrent", "linear-scan"]
    for solution in dilemma.values():
        for mine, sum_s, standard_s in zip(solution, cumulative, standard, strict=True):
            assert 13 * mine < sum_s
            assert mine < standard_s
