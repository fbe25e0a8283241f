"""A marker that would hide another is refused in one line, and fails its own test alone."""

import pytest

HEAD = """
import pytest
from scripted import memory

mb = pytest.mark.memory_budget

def test_other(): pass
"""

MB, IT = "pytest.mark.memory_budget", "def test_it(self=None): memory.use(64 << 20)"
#: A suite whose test_it has two markers of one metric, and the line of the closer; line 8 has the
#: other.
HIDDEN = {
    "options": (f'@{MB}("1 MiB")\nclass TestIt:\n    @{MB}(tolerance="1%")\n    {IT}', 10),
    "bare": (f'@{MB}("1 MiB")\nclass TestIt:\n    @{MB}\n    {IT}', 10),
    "bare class": (f'pytestmark = {MB}("1 MiB")\n@{MB}()\nclass TestIt:\n    {IT}', 9),
    "function": (f'pytestmark = {MB}("1 MiB")\n@{MB}\n{IT}', 9),
}


@pytest.mark.parametrize(("text", "line"), HIDDEN.values(), ids=HIDDEN)
def test_a_marker_without_a_limit_may_not_hide_a_limit(scripted, text, line):
    ran = scripted.tests(text).run()
    assert ran.outcomes["errors"] >= 1
    (row,) = (row for row in ran.rows if row["nodeid"].endswith("test_it"))
    assert row["reason"] == (
        "memory_budget: a marker without a limit hides the limit '1 MiB' of test_suite.py:8;"
        f" markers do not merge, so give the limit too   test_suite.py:{line}"
    )


TWICE = {
    "function": '@mb("1 GiB")\n@mb("2 GiB")\ndef test_it(): memory.use(1)',
    "class": '@mb("1 GiB")\n@mb("2 GiB")\nclass TestIt:\n    def test_it(self): memory.use(1)',
    "module": 'pytestmark = [mb("2 GiB"), mb("1 GiB")]\ndef test_it(): memory.use(1)',
    "method": 'class TestIt:\n    @mb("1 GiB")\n    @mb("2 GiB")\n    def test_it(self): pass',
}


@pytest.mark.parametrize("text", TWICE.values(), ids=TWICE)
def test_two_markers_of_one_metric_in_one_place_are_refused(scripted, text):
    ran = scripted.tests(text).run()
    assert ran.outcomes["errors"] >= 1
    (row,) = (row for row in ran.rows if row["nodeid"].endswith("test_it"))
    assert row["outcome"] == "not enforced"
    assert row["reason"].startswith(
        "memory_budget: two markers of metric 'peak' in one place, '2 GiB' and '1 GiB'; keep one"
        "   test_suite.py:"
    )


def test_markers_that_hide_none_stay_valid(scripted):
    ran = scripted.tests("""
@mb(1)
class TestBase:
    def test_base(self): memory.use(1)

@mb(10)
class TestIt(TestBase):
    def test_class(self): memory.use(1)

    @mb(100)
    @mb(100, metric="retained")
    @pytest.mark.parametrize("n", [1, pytest.param(2, marks=mb(1000))])
    def test_closest(self, n): memory.use(1)

@pytest.fixture
def late(request): request.applymarker(mb(50))

@mb(100)
def test_late(late): memory.use(1)
""").run()
    limits = {
        (row["nodeid"].partition("::")[2], row["metric"]): row["limit_bytes"] for row in ran.rows
    }
    assert limits == {
        ("TestBase::test_base", "peak"): 1,
        ("TestIt::test_base", "peak"): 10,
        ("TestIt::test_class", "peak"): 10,
        ("TestIt::test_closest[1]", "peak"): 100,
        ("TestIt::test_closest[1]", "retained"): 100,
        ("TestIt::test_closest[2]", "peak"): 1000,
        ("TestIt::test_closest[2]", "retained"): 100,
        ("test_late", "peak"): 100,
    }
