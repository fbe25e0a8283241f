"""The end of a session tells why a budget was not enforced, and that budgets are off."""

SUITE = """
@pytest.mark.parametrize("n", range(2))
@pytest.mark.memory_budget(10)
def test_nothing(n): pass

@pytest.mark.memory_budget
def test_bare(): memory.use(1)

@pytest.mark.memory_budget(10, metric="reserved")
def test_unmeasured(): memory.use(1)

@pytest.mark.skip(reason="no GPU")
@pytest.mark.memory_budget(10)
def test_skipped(): pass

@pytest.mark.memory_budget({"cuda": 1})
def test_elsewhere(): memory.use(1)
"""


def test_reasons_are_told_without_another_run_the_most_frequent_first(scripted):
    scripted.tests(SUITE)
    lines = scripted.run().result.outlines
    start = next(i for i, line in enumerate(lines) if line.startswith("attnmem: "))
    assert lines[start : start + 6] == [
        "attnmem: 6 budgets, 0 within, 0 over, 6 not enforced (--attnmem-report for the table)",
        "  2 not enforced: nothing was allocated",
        "  1 not enforced: no baseline entry; --attnmem-update new writes one",
        "  1 not enforced: no limit for scripted, only for cuda",
        "  1 not enforced: skipped: no GPU",
        "  1 not enforced: reserved is not measured on scripted",
    ]


def test_the_table_has_each_of_them_and_they_are_not_told_twice(scripted):
    ran = scripted.tests(SUITE).run("--attnmem-report")
    assert not any(line.startswith("  2 not enforced") for line in ran.result.outlines)


def test_a_disabled_session_says_so_at_its_end(scripted):
    ran = scripted.tests(SUITE).run("--attnmem-disable", "-q")
    assert "attnmem: disabled, budgets are not enforced" in ran.result.outlines
