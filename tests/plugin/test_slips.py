"""Mistakes that would let a test pass with nothing enforced."""


def test_slips_of_regions_and_calls(suite):
    ran = suite.tests("""
def test_never(attnmem): attnmem.region("forward", "1 KiB")

def test_twice(attnmem):
    region = attnmem.region("forward")
    with region: pass
    with region: pass

@pytest.mark.parametrize("name", ["64 MiB", None, "", " ", 3, ["a"], "a\\n::error::"], ids=range(7))
def test_name(attnmem, name):
    with attnmem.region(name): pass

def test_measure(attnmem): attnmem.measure(torch.ones(3))
def test_check(attnmem): attnmem.check(12, "1 KiB")
""").run()
    assert ran.outcomes == {"failed": 11}
    assert ran.short("test_never") == (
        "FAILED: Failed: region 'forward' was never entered; use it in a 'with'"
    )
    assert ran.row("test_never", region="forward")["outcome"] == "not enforced"
    for text in (
        "region 'forward' was entered before; make a region for each 'with'",
        "a region's name comes first: region('forward', '64 MiB')",
        *(
            f"a region needs a name, one line of text; got {name}"
            for name in ("None", "''", "' '", "3", "['a']", r"'a\n::error::'")
        ),
        "measure takes a function and its arguments, measure(fn, q, k, v); got a Tensor",
        "check takes the Measurement that measure returned; got an int",
    ):
        assert text in ran.text


def test_names_of_the_field_and_of_dtypes_are_symbols_and_those_alone_hide_no_limit(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("B*N", B=1)
class TestIt:
    @pytest.mark.memory_budget(N=4)
    def test_it(self): pass

@pytest.mark.memory_budget("heads*seq_len*4", exact=True)
@pytest.mark.parametrize("seq_len", [64])
@pytest.mark.parametrize("num_heads", [2])
def test_it(num_heads, seq_len): torch.empty(num_heads, seq_len)

@pytest.mark.memory_budget("itemsize", exact=True)
def test_short(qkv):
    q, k, v = qkv(1, 1, 2, 2, dtype="bf16")
    assert q.dtype == torch.bfloat16
    q.sum()

def test_integers(qkv): qkv(1, 1, 2, 2, dtype=torch.int8)
""").run()
    assert ran.outcomes == {"passed": 2, "failed": 1, "errors": 1}
    assert ran.short("TestIt::test_it") == (
        "ERROR: Failed: memory_budget: N without a limit hides the limit 'B*N' of"
        " test_suite.py:4; markers do not merge, so give the limit too   test_suite.py:6"
    )
    assert ran.row("test_it[2-64]")["limit_bytes"] == 512
    assert ran.row("test_short")["limit_bytes"] == 2
    assert "qkv needs a floating dtype, such as torch.float16 or 'float16', got torch.int8" in (
        ran.text
    )
