"""``attnmem init``, with real sessions of pytest."""

import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli import init_edits, init_promises, main
from pytest_attnmem.cli.init_promises import Promise
from pytest_attnmem.measurement.tensor_kinds import kinds
from pytest_attnmem.report.record import Record

SUITE = '''"""A suite."""

import pytest
import torch


@pytest.mark.parametrize("seq_len,width", [(256, 64), (512, 64)])
def test_scores(seq_len, width):
    q = torch.zeros(2, seq_len, width)
    (q @ q.mT).softmax(-1) @ q


class TestRest:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("N", [300])
    def test_dtypes(self, N, dtype):
        torch.zeros(N, N, dtype=dtype).exp()

    @pytest.mark.parametrize("N", [1000])
    def test_ragged(self, N):
        scores, bias, more = torch.zeros(N, N), torch.zeros(N), torch.zeros(N % 7 + 1)


def test_plain():
    torch.zeros(200, 200).exp()


def test_by_chance():
    torch.zeros(int(torch.randint(1, 500, ())), 40)


@pytest.mark.memory_budget("64 MiB")
def test_promised():
    torch.zeros(1000, 1000)


def test_fails():
    torch.zeros(1000, 1000)
    raise ValueError
'''
MARKERS = {
    "test_scores": "16*N^2 + 8*N*width",
    "test_dtypes": "2*N^2*itemsize",
    "test_ragged": "4*N^2 + O(N + 1)",
}


@pytest.fixture
def suite(pytester):
    pytester.mkdir("tests").joinpath("test_suite.py").write_text(SUITE, "utf-8")
    pytester.makeini("[pytest]\n")
    subprocess.run(["git", "init", "--quiet"], cwd=pytester.path, check=True)
    return pytester.path


@pytest.fixture
def in_process(pytester, monkeypatch):
    """Runs sessions in this process: one of its own would import torch each time."""

    def run(command, **_):
        interpreter, dash, module, *arguments = command
        assert (interpreter, dash, module) == (sys.executable, "-m", "pytest")
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            ran = pytester.runpytest_inprocess(*arguments)
        return subprocess.CompletedProcess(command, ran.ret, ran.stdout.str(), ran.stderr.str())

    monkeypatch.setattr(init_promises, "subprocess", SimpleNamespace(run=run))


IN_PROCESS = pytest.mark.usefixtures("in_process")


@IN_PROCESS
def test_each_of_the_largest_tests_gets_the_strongest_promise_that_it_keeps(suite, capsys):
    assert main(["init", "tests", "-q"]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert printed.startswith("measured on cpu; attnmem_backend in the ini file chooses\n\ntest ")
    table = [line.split() for line in lines[4:9]]
    assert [(row[0].rpartition("::")[2], row[3]) for row in table] == [
        ("test_scores[512-64]", "formula"),
        ("test_ragged[1000]", "contract"),
        ("test_dtypes[300-dtype1]", "formula"),
        ("test_plain", "baseline"),
        ("test_by_chance", "none"),
    ]
    assert "2.0 MiB more is 2.0 MiB over" in lines[4]
    assert lines[lines.index("left out, 1 test:") + 1] == (
        "  tests/test_suite.py::test_fails: the test failed: ValueError"
    )
    subprocess.run(["git", "apply"], input=printed, text=True, cwd=suite, check=True)
    source = suite.joinpath("tests", "test_suite.py").read_text("utf-8")
    for name, limit in MARKERS.items():
        _, below = source.split(f'@pytest.mark.memory_budget("{limit}")')
        assert below.split("def ")[1].startswith(name)
    entries = json.loads(suite.joinpath("attnmem-baseline.json").read_text("utf-8"))["entries"]
    assert [entry["test"] for entry in entries] == ["tests/test_suite.py::test_plain"]


@IN_PROCESS
def test_apply_writes_the_files_and_json_has_what_the_table_has(suite, capsys):
    assert main(["init", "--apply", "--json", "-k", "scores"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["suggestions"] == [
        {
            "test": "tests/test_suite.py::test_scores[512-64]",
            "where": "tests/test_suite.py:7",
            "peak_bytes": 4456448,
            "promise": "formula",
            "limit": "16*N^2 + 8*N*width",
            "reason": None,
            "largest_tensor_bytes": 2097152,
            "over_bytes": 2097152,
        }
    ]
    assert "memory_budget" in found["diff"]
    source = suite.joinpath("tests", "test_suite.py").read_text("utf-8")
    assert '\n@pytest.mark.memory_budget("16*N^2 + 8*N*width")\n@pytest.mark.param' in source
    assert (found["backends"], found["left_out"]) == (["cpu"], {})
    assert main(["init", "-k", "scores"]) == 0  # each test has a promise now
    assert capsys.readouterr().out == (
        "nothing to suggest: each test that allocates memory has a budget\n"
    )


NONE = "no test without a budget was measured: tests/"


@IN_PROCESS
def test_without_a_test_to_measure_one_line_says_why(suite, refusal):
    failed = f"{NONE}test_suite.py::test_fails: the test failed: ValueError"
    assert refusal("init", "-k", "fails") == failed
    absent = "no test ran; name the tests, as in attnmem init tests"
    assert refusal("init", "-k", "absent") == absent
    suite.joinpath("tests", "test_new.py").write_text("import nowhere", "utf-8")
    missing = "did not pass: ModuleNotFoundError: No module named 'nowhere'"
    assert refusal("init", "tests") == f"{NONE}test_new.py: {missing}"


def test_in_a_process_of_its_own_a_session_answers_the_same(suite, refusal):
    found = refusal("init", "-k", "fails or promised", "--attnmem-backend=cpu")
    assert found == f"{NONE}test_suite.py::test_fails: the test failed: ValueError"


OTHERS = """
import pytest, torch

CACHE = {}

def test_cache():
    if not CACHE:
        CACHE["tables"] = torch.zeros(64, 64)
    torch.zeros(128, 128)

@pytest.mark.parametrize("flag", [False, True])
def test_flags(flag):
    torch.zeros(100, 100)
    torch.zeros(1 + flag)

def test_nothing():
    pass
"""


@IN_PROCESS
def test_each_test_that_gets_an_entry_has_a_row_with_the_bytes_of_the_entry(suite, capsys):
    suite.joinpath("tests", "test_others.py").write_text(OTHERS, "utf-8")
    assert main(["init", "tests/test_others.py", "--apply"]) == 0
    out = capsys.readouterr().out
    assert "left out" not in out
    rows = {line.split()[0].partition("::")[2]: line for line in out.splitlines() if "::" in line}
    text = suite.joinpath("attnmem-baseline.json").read_text("utf-8")
    entries = {one["test"].partition("::")[2]: one for one in json.loads(text)["entries"]}
    assert rows.keys() == entries.keys() == {"test_cache", "test_flags[False]", "test_flags[True]"}
    assert (entries["test_cache"]["bytes"], entries["test_cache"]["first"]) == (65536, 81920)
    assert "  80.0 KiB  baseline   64.0 KiB +16.0 KiB filled once  " in rows["test_cache"]


def test_words_that_pytest_refuses_are_one_line(suite, refusal):
    line = refusal("init", "--no-such-option")
    assert line.startswith("pytest ended early: ")
    assert "unrecognized arguments: --no-such-option" in line


def row(**more):
    return Record("a.py::t", outcome=Outcome.WITHIN, metric="peak", where="a.py:3", **more)


PROMISE = Promise("a.py:3", "a.py::t", 4096, "formula", "4*N^2", largest=1024)


def test_a_promise_that_a_copy_of_the_largest_tensor_keeps_is_none():
    kept = init_promises.judged(PROMISE, [row(peak_bytes=4096, limit_bytes=5120)])
    assert (kept.kind, kept.why) == ("", "a copy of its largest tensor would not exceed it")
    broken = init_promises.judged(PROMISE, [row(peak_bytes=4096, limit_bytes=5119)])
    assert (broken.kind, broken.over) == ("formula", 1)


def test_a_contract_that_a_copy_at_each_size_keeps_is_none():
    sizes, shape = [32, 64, 96, 128, 160], {"N": 160}
    formula = [4 * n * n for n in sizes]
    growth = {"sizes": {"N": sizes}, "peaks": formula, "formula": None, "over": [0] * 5}
    measured = row(peak_bytes=4 * 160**2, shape=shape, growth=(growth,))
    for limit, over in (("4*N^2 + O(N)", 1024), ("4*N^2 + O(N^2)", 0)):
        promise = replace(PROMISE, kind="contract", limit=limit)
        assert init_promises.judged(promise, [measured]).over == over


@pytest.mark.parametrize(
    ("held", "limit"),
    [
        (
            ["2 × float32 [B, N, N] bmm, a.py", "1 × float32 [B, N, 64] bmm, a.py"],
            "8*B*N^2 + O(B*N)",
        ),
        (["1 × float16 [N, 8] mm, a.py"], "16*N + O(1)"),
        (["1 × float32 [64, 64] mm, a.py"], ""),
    ],
)
def test_a_contract_has_the_tensors_of_the_highest_order(held, limit):
    known = kinds(held, {"B": 2, "N": 128})
    total = init_promises._total(known)
    assert (init_promises._contract(total) if total.atoms else "") == limit


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import pytest as p\n\ndef t(): ...\n", '@p.mark.memory_budget("1")\ndef t(): ...\n'),
        (
            '"""Doc."""\nfrom __future__ import annotations\nimport torch\ndef t(): ...\n',
            "import pytest\nimport torch\n",
        ),
        ("def t(): ...\r\n", 'import pytest\r\n@pytest.mark.memory_budget("1")\r\ndef t'),
        ("@p\n@q\ndef t(): ...", 'import pytest\n@pytest.mark.memory_budget("1")\n@p\n@q\n'),
    ],
)
def test_a_marker_stands_above_all_decorators_and_pytest_is_imported(before, after):
    line, *_ = [
        n for n, text in enumerate(before.splitlines(), 1) if text.startswith(("def", "@p"))
    ]
    assert after in init_edits.marked(before, {line: "1"})


def test_only_functions_of_the_projects_own_files_can_be_marked(tmp_path):
    tmp_path.joinpath("a.py").write_text("x = 1\n@m\nasync def t(): ...\n", "utf-8")
    tmp_path.joinpath("b.txt").write_text(">>> 1", "utf-8")
    places = ("a.py:1", "a.py:2", "a.py:3", "b.txt:1", "../a.py:2", "c.py:1")
    assert [init_edits.can_be_marked(tmp_path, place) for place in places] == [
        *(False, True, False, False, False, False)
    ]


def test_a_file_without_a_last_newline_has_a_diff_that_git_reads(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import pytest\ndef t(): ...", "utf-8")
    edits = init_edits.edits({"a.py:2": "64 MiB"}, {}, tmp_path, Path("none"))
    diff = "".join(init_edits.unified_diff(edits, tmp_path))
    subprocess.run(["git", "apply"], input=diff, text=True, cwd=tmp_path, check=True)
    assert path.read_text("utf-8") == edits[0].after
