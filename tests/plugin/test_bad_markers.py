"""A wrong marker fails its own test in one line, and no other test."""

import pytest

GRAMMAR = (
    "; a formula is arithmetic over symbols: + - * / // ** ^ ( ) min max ceil log2, numbers and"
    " sizes like 64 MiB"
)
SIZES = "write a number and one of B, KiB, MiB, GiB, TiB, as in '64 MiB'"
OPTIONS = "limit, metric, tolerance, exact, backend, device, warmup, ranks, oom, compiled, fixed"

#: The arguments of a marker, and the whole message about them.
BAD = {
    "an unknown keyword": (
        "'1 KiB', tolerence='5%'",
        "unknown keyword 'tolerence': the limit reads no such symbol, and the options are"
        f" {OPTIONS}; did you mean 'tolerance'?",
    ),
    "an unknown symbol as a keyword": (
        "'1 KiB', warm=1",
        f"unknown keyword 'warm': the limit reads no such symbol, and the options are {OPTIONS};"
        " did you mean 'warmup'?",
    ),
    "an unknown symbol": (
        "'2*B*H*Q', B=1, H=2",
        "symbol 'Q' has no value (known: B=1, H=2, Hkv=2, lanes=8); pass Q=… with the limit, name a"
        " test argument so, or make the inputs with the fixture qkv",
    ),
    "several unknown symbols": (
        "'B*H*n*itemsize', B=1, N=2",
        "symbols 'H', 'itemsize', 'n' have no value (known: B=1, N=2, M=2, lanes=8); pass H=…,"
        " dtype=…, n=… with the limit, name a test argument so, or make the inputs with the"
        " fixture qkv",
    ),
    "a unit of two meanings": (
        "'64 MB'",
        "cannot parse size '64 MB': write '64 MiB' (1 MiB = 1024**2 bytes); MB is used for both"
        " 10**6 and 2**20",
    ),
    "a unit with an s": ("'10 GiBs'", f"cannot parse size '10 GiBs': {SIZES}"),
    "a negative size": (
        "'-3 KiB'",
        f"cannot parse size '-3 KiB': a size cannot be negative; {SIZES}",
    ),
    "a call": (
        "\"__import__('os')\"",
        "cannot read formula \"__import__('os')\" at column 1: found '__import__', expected a"
        " number, a symbol or '('" + GRAMMAR,
    ),
    "an attribute": (
        "'B.real'",
        "cannot read formula \"B.real\" at column 2: found '.', expected an operator" + GRAMMAR,
    ),
    "a tower of powers": (
        "'9**9**9'",
        'formula "9**9**9" has no value: 9^9^9 is too large to be a number of bytes; change the'
        " formula",
    ),
    "a growth contract": (
        "'O(log2(N))', N=4",
        "cannot read contract 'O(log2(N))': log2(N) is not a power; a growth contract is a sum of"
        " products of symbols, such as O(N*d), O(N^2) or O(N + d), or O(1)",
    ),
    "two limits": (
        "1, 2",
        "expected one limit and keywords: too many positional arguments",
    ),
    "an unknown metric": (
        "1, metric='peek'",
        "unknown metric 'peek'; expected one of peak, allocated, reserved, retained",
    ),
    "a list": (
        "[1, 2]",
        "cannot read limit [1, 2] (list); expected a size ('64 MiB'), whole bytes, a formula, a"
        " growth contract, a MemoryModel, a callable or a dict by device",
    ),
    "a negative number": ("-1", "limit -1 is negative; a budget is 0 bytes or more"),
    "a tolerance in another unit": (
        "1, tolerance='1 MB'",
        "cannot read tolerance '1 MB'; write a fraction (0.05), a percentage ('5%'), a size"
        " ('1 MiB') or both ('2%+1MiB')",
    ),
    "an unknown backend": (
        "1, backend='gpu'",
        "unknown backend 'gpu'; expected one of auto, cuda, accelerator, null, cpu,"
        " simulated, scripted, absent; did you mean 'cuda'?",
    ),
    "a backend and another's device": (
        "1, backend='cpu', device='cuda'",
        "backend='cpu' does not measure device='cuda'; give one of the two",
    ),
    "a callable that raises": (
        "lambda shape: 1 / 0",
        "budget <lambda> raised ZeroDivisionError: division by zero",
    ),
    "a callable that returns no bytes": (
        "lambda shape: 1.5",
        "budget <lambda> returned 1.5; expected whole bytes, an int >= 0 and < 2**512",
    ),
    "a limit of more digits than Python writes": (
        "10**5000",
        "limit <int of 16610 bits> is too large; a budget is below 2**512 bytes",
    ),
    "a device of too many digits": (
        "1, device='cuda:' + '9' * 5000",
        f"device='cuda:{'9' * 56}...' is not a name; write device='cpu', for example",
    ),
    "a formula that divides by zero": (
        "'B // 0', B=1",
        'formula "B // 0" has no value with B=1: B//0 divides by zero; change the formula',
    ),
}

SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget({marker})
def test_bad(): memory.use(1)

@pytest.mark.memory_budget(1)
def test_good(): memory.use(1)

def test_unmarked(): pass
"""


@pytest.mark.parametrize(("marker", "message"), BAD.values(), ids=BAD)
def test_bad_input_fails_its_own_test_in_one_line(scripted, marker, message):
    scripted.write(SUITE.format(marker=marker))
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2, "errors": 1}
    assert ran.report("ERROR at setup of test_bad") == [
        f"memory_budget: {message}   test_suite.py:5"
    ]
    assert ran.outcome("test_bad") == f"not enforced: memory_budget: {message}   test_suite.py:5"
    assert ran.outcome("test_good") == "within"


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("import pytest\n\npytestmark = pytest.mark.memory_budget('64 MB')\n\nclass TestIt:", 3),
        ("import pytest\n\n@pytest.mark.memory_budget('64 MB')\nclass TestIt:", 3),
        (
            '"""All have a memory_budget."""\nimport pytest\n\n'
            "@pytest.mark.memory_budget(1, metric='retained')\ndef helper(): pass\n\n"
            "pytestmark = [\n    pytest.mark.memory_budget('64 MB'),\n]\n\nclass TestIt:",
            8,
        ),
        (
            "import pytest\nimport unittest\n\n\n@pytest.mark.slow\n"
            "@pytest.mark.memory_budget('64 MB')\nclass TestIt(unittest.TestCase):",
            6,
        ),
    ],
    ids=["module", "class", "module with others", "unittest class"],
)
def test_the_message_says_where_the_marker_is(scripted, head, line):
    scripted.ini["markers"] = "slow"
    scripted.write(f"{head}\n    def test_it(self): pass\n")
    (shown,) = scripted.run().report("ERROR at setup of TestIt.test_it")
    assert shown.endswith(f"MB is used for both 10**6 and 2**20   test_suite.py:{line}")


def test_a_limit_that_names_a_fixture_by_mistake_is_found_before_the_body_runs(scripted):
    scripted.write("""
import pytest

@pytest.mark.memory_budget("2*S")
@pytest.mark.parametrize("N", [1])
def test_it(N, tmp_path): raise AssertionError("ran")
""")
    ran = scripted.run()
    assert ran.outcomes == {"errors": 1}
    assert ran.short("test_it[1]").startswith(
        "ERROR: Failed: memory_budget: symbol 'S' has no value ("
    )


def test_a_marker_and_an_argument_that_disagree_are_both_named(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget("2*N", N=64)
@pytest.mark.parametrize("seq_len", [64, 128])
def test_it(seq_len): memory.use(1)
""")
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1, "errors": 1}
    assert ran.short("test_it[128]") == (
        "ERROR: Failed: memory_budget: symbol 'N' has two values: N=64 from the marker,"
        " N=128 (seq_len=128) from the test's arguments   test_suite.py:5"
    )


def test_a_marker_and_qkv_that_disagree_fail_after_the_call(suite):
    suite.write("""
import pytest

@pytest.mark.memory_budget("B*H*N*d*itemsize", N=64)
def test_it(qkv):
    q, k, v = qkv(1, 2, 32, 8)
    q + k
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1}
    message = "memory_budget: symbol 'N' has two values: N=64 from the marker, N=32 from qkv"
    assert ran.short("test_it") == f"FAILED: Failed: {message}   test_suite.py:4"
    assert ran.outcome("test_it") == (
        "not enforced: symbol 'N' has two values: N=64 from the marker, N=32 from qkv"
    )


def test_a_symbol_that_qkv_does_not_bring_either_fails_after_the_call(suite):
    suite.write("""
import pytest

@pytest.mark.memory_budget("B*window")
def test_it(qkv):
    q, k, v = qkv(1, 2, 32, 8)
    q + k
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1}
    (message,) = ran.report("test_it")
    assert message.startswith("memory_budget: symbol 'window' has no value (known: B=1, H=2, Hkv=2")
    assert message.endswith("   test_suite.py:4")


def test_a_test_that_fails_before_qkv_is_called_fails_for_its_own_reason_only(suite):
    suite.write("""
import pytest

@pytest.mark.memory_budget("B*H*N*d")
def test_it(qkv): raise ValueError("no weights")

@pytest.mark.memory_budget("B*H*N*d")
def test_skipped(qkv): pytest.skip("no weights")
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1, "skipped": 1}
    assert ran.outcome("test_it") == "not enforced: the test failed: ValueError"
    assert ran.outcome("test_skipped") == "not enforced: skipped: no weights"
    assert "symbol" not in ran.text


def test_every_metric_with_a_bad_budget_has_a_row(suite):
    suite.write("""
import pytest

@pytest.mark.memory_budget("B*window")
@pytest.mark.memory_budget("B*gap", metric="retained")
def test_it(qkv):
    q, k, v = qkv(1, 2, 32, 8)
    q + k
""")
    ran = suite.run()
    assert ran.outcome("test_it").startswith("not enforced: symbol 'window' has no value")
    assert ran.outcome("test_it", metric="retained").startswith(
        "not enforced: symbol 'gap' has no value"
    )
    places = [line.rpartition("   ")[2] for line in ran.report("test_it")]
    assert places == ["test_suite.py:5", "test_suite.py:4"]


def test_bad_input_under_strict_is_still_one_failure(scripted):
    scripted.write(SUITE.format(marker="'64 MB'"))
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 2, "errors": 1}
    assert "not enforced (--attnmem-strict all)" not in ran.text


def test_a_region_that_makes_no_sense_fails_where_it_is(scripted):
    scripted.write("""
def test_it(attnmem):
    with attnmem.region("a", "64 MB"):
        pass
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert ran.short("test_it").startswith(
        "FAILED: pytest_attnmem.errors.SizeError: cannot parse size '64 MB'"
    )


def test_of_errors_in_a_test_only_the_tests_own_frames_are_shown(scripted):
    scripted.write("""
def test_it(attnmem):
    attnmem.qkv(0, 1, 1, 1)
""")
    ran = scripted.run()
    assert ran.outcomes == {"failed": 1}
    assert "inputs.py" not in ran.text
