"""Messages say what to write, and what they say to write is accepted."""

import json

import pytest

from pytest_attnmem.budgets.budget import resolve
from pytest_attnmem.budgets.parsing import memory_budget
from pytest_attnmem.cli import main
from pytest_attnmem.errors import AttnMemError, BudgetError
from pytest_attnmem.measurement.qkv_inputs import qkv
from pytest_attnmem.report.record import Record, from_dict, to_dict
from pytest_attnmem.suggestion import closest, did_you_mean, product
from pytest_attnmem.symbols.attention_shape import Source, gather
from pytest_attnmem.symbols.names import SYMBOLS

SHAPE = gather([Source("test", {"B": 1, "H": 2, "N": 4, "d": 8, "itemsize": 4})])
KNOWN = "known: B=1, H=2, Hkv=2, N=4, M=4, d=8, dv=8, itemsize=4"
PASS = "with the limit, name a test argument so, or make the inputs with the fixture qkv"
GRAMMAR = (
    "a formula is arithmetic over symbols: + - * / // ** ^ ( ) min max ceil log2, numbers and"
    " sizes like 64 MiB"
)
SIZES = "write a number and one of B, KiB, MiB, GiB, TiB, as in '64 MiB'"


def refusal(call, *arguments, **keywords):
    with pytest.raises(AttnMemError) as error:
        call(*arguments, **keywords)
    return str(error.value)


def bytes_of(limit, **keywords):
    return resolve(memory_budget(limit, **keywords), SHAPE, ("cpu",)).limit_bytes


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (
            "2BHN",
            "cannot read formula \"2BHN\" at column 2: found 'BHN', expected an operator, as in"
            f" 2*B*H*N; {GRAMMAR}",
        ),
        ("BHN", f"symbol 'BHN' has no value ({KNOWN}); pass BHN=… {PASS}; did you mean B*H*N?"),
        ("2*n", f"symbol 'n' has no value ({KNOWN}); pass n=… {PASS}; did you mean 'N'?"),
        ("64 M", f"cannot parse size '64 M': {SIZES}"),
        (
            lambda s: s.score_bytes,
            "a shape has no attribute 'score_bytes'; did you mean 'scores_bytes'?",
        ),
        (
            lambda s: 1.5 * s.out_bytes,
            "budget <lambda> returned the float 384.0; wrap it in int(...)",
        ),
    ],
    ids=["2BHN", "BHN", "n", "64 M", "score", "float"],
)
def test_a_limit(limit, message):
    assert refusal(bytes_of, limit) == message


@pytest.mark.parametrize(
    ("limit", "nbytes"),
    [
        ("1000000000 B", 10**9),
        ("2*B*H*N^2", 64),
        ("1_000_000 B", 10**6),
        ("64 mib", 64 << 20),
        ("64MIB + 0*N", 64 << 20),
        ("1_000*N", 4000),
        ("0", 0),
        (64, 64),
        (lambda s: int(1.5 * s.out_bytes), 384),
        (lambda s: s.scores_bytes, 128),
    ],
    ids=["B", "2*B", "1_000_000", "mib", "MIB", "1_000", "zero", "int", "1.5 out", "scores"],
)
def test_a_limit_that_is_read(limit, nbytes):
    assert bytes_of(limit) == nbytes


def test_unknown_keywords_of_qkv_are_named():
    assert refusal(qkv, b=1, H=2, N=64, width=16) == (
        "qkv has no keyword 'b', 'width'; it takes B, H, N, d, Hkv, M, dv, dtype, device,"
        " requires_grad, seed, and names such as batch, heads, seq_len and head_dim; did you mean"
        " B?"
    )
    assert refusal(qkv, B=1, batch=1, H=2, N=64, d=16) == (
        "qkv got B twice, as B and as batch; leave one out"
    )
    assert refusal(qkv, 1, 2, 3) == (
        "qkv takes B, H, N, d and keywords: missing a required argument: 'd'"
    )


def test_qkv_takes_the_names_that_a_test_may_have(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("B*H*N*M*d*dv*Hkv*itemsize")
def test_it(qkv):
    sizes = dict(batch=1, num_heads=4, seq_len=6, head_dim=8, kv_heads=2, kv_len=10, v_head_dim=4)
    q, k, v = qkv(**sizes, dtype="fp16")
    assert (*q.shape, *k.shape, *v.shape) == (1, 4, 6, 8, 1, 2, 10, 8, 1, 2, 10, 4)
    q + q
""").run()
    assert ran.outcomes == {"passed": 1}
    assert ran.row("test_it")["limit_bytes"] == 4 * 6 * 10 * 8 * 4 * 2 * 2


def test_suggestions():
    assert all(product(symbol) == symbol for symbol in SYMBOLS)
    assert product("batch") == product("") == ""
    assert closest("n", ["M", "N"]) == "N"
    assert closest("N", ["N"]) == ""
    assert did_you_mean("wormup", ["warmup", "metric"]) == "; did you mean 'warmup'?"
    assert did_you_mean("x", ["warmup"]) == ""


def test_a_comparison_takes_percentages(suite):
    ran = suite.tests("""
def new(): torch.empty(64)
def base(): torch.empty(128)

def test_within(attnmem): attnmem.compare(new, base, max_ratio="50%", min_saving="256 B")
def test_over(attnmem): attnmem.compare(new, base, max_ratio="49%")
""").run()
    assert ran.outcomes == {"passed": 1, "failed": 1}
    assert ran.short("test_over").endswith(
        "peak of new, 256 B, is 0.50x of base; allowed 250 B, 49% of base 512 B on cpu"
    )


@pytest.mark.parametrize("source", ["command line", "ini"])
def test_a_tolerance_of_the_baseline_without_a_unit(suite, source):
    suite.write("def test_it(): pass")
    if source == "ini":
        suite.ini["attnmem_tolerance"] = "5"
        ran, name = suite.run(), "attnmem_tolerance"
    else:
        ran, name = suite.run("--attnmem-tolerance=5"), "--attnmem-tolerance"
    assert ran.result.ret == pytest.ExitCode.USAGE_ERROR
    assert ran.result.errlines[0] == (
        f"ERROR: {name}: cannot read tolerance '5': 5 has no unit; write '5%' or '5 B'"
    )


def test_a_duration_beyond_a_float_is_refused_in_one_line(tmp_path, capsys):
    row = {**to_dict(Record("a.py::test", reason="skipped")), "duration_s": 10**400}
    data = {"schema": 1, "environment": {}, "results": [row], "growth": [], "summary": {}}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(data), "utf-8")
    assert main(["report", str(path), "--html", str(tmp_path / "page.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "duration_s=1000" in line
    assert line.endswith(" is not of type float")


def test_a_whole_duration_is_one():
    row = {**to_dict(Record("a.py::test")), "duration_s": 2}
    assert from_dict(row).duration_s == 2


@pytest.mark.parametrize("name", ["N", "seq_len"])
def test_a_size_that_is_true_is_refused(name):
    shape = gather([Source("the test's arguments", {name: True, "causal": True})])
    with pytest.raises(BudgetError) as error:
        shape.read(["N"])
    assert str(error.value) == (
        f"symbol 'N' has no size: {name}=True from the test's arguments; give a whole number"
    )
    assert shape["causal"] == 1


def test_a_marker_with_it_fails_its_test(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget("2*N", N=True)
def test_it(): memory.use(2)
""").run()
    assert ran.outcomes == {"errors": 1}
    assert "symbol 'N' has no size: N=True from the marker; give a whole number" in ran.text
