"""A wrong marker fails its own test in one line, and no other test."""

import pytest

#: The arguments of a marker, and the whole message about them; ``tests/budgets`` has all others.
BAD = {
    "an unknown keyword": (
        "'1 KiB', tolerence='5%'",
        "unknown keyword 'tolerence': the limit reads no such symbol, and the options are limit,"
        " metric, tolerance, exact, backend, device, warmup, ranks, compiled, fixed; did you"
        " mean 'tolerance'?",
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
    "a tower of powers": (
        "'9**9**9'",
        'formula "9**9**9" has no value: 9^9^9 is too large to be a number of bytes; change the'
        " formula",
    ),
    "two limits": ("1, 2", "expected one limit and keywords: too many positional arguments"),
    "an unknown backend": (
        "1, backend='gpu'",
        "unknown backend 'gpu'; expected one of auto, cuda, accelerator, null, cpu,"
        " simulated, scripted, absent; did you mean 'cuda'?",
    ),
    "a backend that is not here": (
        "10, backend='absent'",
        "backend 'absent' cannot measure here: nobody built one",
    ),
    "a number of the CPU": (
        "10, backend='cpu:1'",
        "backend 'cpu' takes no device number, got '1'",
    ),
    "the null device in another session": (
        "'1 MiB', backend='null:H100'",
        "backend 'null' must be there before torch is imported: start with pytest"
        " --attnmem-backend null:H100, or attnmem run",
    ),
    **{
        f"a slip of a device, {slip}": (
            f"'1 KiB', device={slip!r}",
            f"unknown device {slip!r}; write 'cuda', 'cuda:1' or 'cpu'; did you mean {meant!r}?",
        )
        for slip, meant in (("gpu", "cuda"), ("cudaa:1", "cuda:1"), ("CPU", "cpu"))
    },
    "a backend and another's device": (
        "1, backend='cpu', device='cuda'",
        "backend='cpu' does not measure device='cuda'; give one of the two",
    ),
    "a callable that raises": (
        "lambda shape: 1 / 0",
        "budget <lambda> raised ZeroDivisionError: division by zero",
    ),
    "a limit of more digits than Python writes": (
        "10**5000",
        "limit <int of 16610 bits> is too large; a budget is below 2**512 bytes",
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


def test_a_marker_and_an_argument_that_disagree_are_both_named(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget("2*N", N=64)
@pytest.mark.parametrize("seq_len", [64, 128])
def test_it(seq_len): memory.use(1)

@pytest.mark.memory_budget("2*S")  # and not tmp_path
def test_fixture(tmp_path): raise AssertionError("ran")
""").run()
    assert ran.outcomes == {"passed": 1, "errors": 2}
    assert ran.short("test_it[128]") == (
        "ERROR: Failed: memory_budget: symbol 'N' has two values: N=64 from the marker,"
        " N=128 (seq_len=128) from the test's arguments   test_suite.py:5"
    )
    assert ran.short("test_fixture").startswith(
        "ERROR: Failed: memory_budget: symbol 'S' has no value ("
    )


def test_what_does_not_fit_the_inputs_of_qkv_fails_after_the_call(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("B*H*N*d*itemsize", N=64)
def test_disagree(qkv):
    q, k, v = qkv(1, 2, 32, 8)
    q + k

@pytest.mark.memory_budget("B*window")
@pytest.mark.memory_budget("B*gap", metric="retained")
def test_two(qkv):
    q, k, v = qkv(1, 2, 32, 8)
    q + k

@pytest.mark.memory_budget("B*H*N*d")
def test_before(qkv): raise ValueError("no weights")

@pytest.mark.memory_budget("B*H*N*d")
def test_skipped(qkv): pytest.skip("no weights")

def test_inputs(attnmem): attnmem.qkv(0, 1, 1, 1)

def test_region(attnmem):
    with attnmem.region("a", "64 MB"):
        pass
""").run()
    assert ran.outcomes == {"failed": 5, "skipped": 1}
    message = "symbol 'N' has two values: N=64 from the marker, N=32 from qkv"
    failed = f"FAILED: Failed: memory_budget: {message}   test_suite.py:4"
    assert ran.short("test_disagree") == failed
    assert ran.outcome("test_disagree") == f"not enforced: {message}"
    for metric, symbol in (("peak", "window"), ("retained", "gap")):
        reason = f"not enforced: symbol '{symbol}' has no value"
        assert ran.outcome("test_two", metric=metric).startswith(reason)
    places = [line.rpartition("   ")[2] for line in ran.report("test_two")]
    assert places == ["test_suite.py:10", "test_suite.py:9"]
    assert ran.outcome("test_before") == "not enforced: the test failed: ValueError"
    assert ran.outcome("test_skipped") == "not enforced: skipped: no weights"
    for test in ("test_before", "test_inputs"):
        lines = "\n".join(ran.report(test))
        assert "symbol" not in lines
        assert "inputs.py" not in lines
    assert ran.short("test_region").startswith(
        "FAILED: pytest_attnmem.errors.SizeError: cannot parse size '64 MB'"
    )


def test_bad_input_under_strict_is_still_one_failure(scripted):
    scripted.write(SUITE.format(marker="'64 MB'"))
    ran = scripted.run("--attnmem-strict=all")
    assert ran.outcomes == {"passed": 2, "errors": 1}
    assert "not enforced (--attnmem-strict all)" not in ran.text
