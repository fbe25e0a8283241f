"""``-m attnmem`` selects every test that is measured, whatever measures it."""

from pathlib import Path

SUITE = """
@pytest.mark.memory_budget("1 MiB")
def test_marked():
    torch.empty(4)

def test_regions(attnmem):
    with attnmem.region("part", "1 MiB"):
        torch.empty(4)

@pytest.fixture
def through(attnmem):
    return attnmem

def test_indirect(through):
    through.check(through.measure(torch.empty, 4), "1 MiB")

def test_values(qkv):
    assert qkv(1, 1, 2, 2)[0].shape == (1, 1, 2, 2)

def test_plain():
    torch.empty(4)
"""


def names(ran):
    return sorted(
        line.partition("::")[2] for line in ran.result.outlines if line.startswith("PASSED ")
    )


def test_the_marker_selects_what_is_measured(suite):
    ran = suite.tests(SUITE).run("-m", "attnmem", "--strict-markers", "-W", "error")
    assert names(ran) == ["test_indirect", "test_marked", "test_regions"]
    assert len(ran.rows) == 3


def test_a_default_limit_measures_every_test(suite):
    ran = suite.tests(SUITE).run("-m", "attnmem", "--attnmem-default=1 MiB")
    assert len(names(ran)) == 5


def test_no_recipe_leaves_out_what_is_measured():
    recipes = Path(__file__).parents[2] / "docs" / "how-to" / "ci.md"
    commands = [
        line
        for line in recipes.read_text("utf-8").splitlines()
        if "pytest" in line and "-m " in line
    ]
    selecting = [line for line in commands if "--attnmem-backend" in line]
    assert len(selecting) >= 4
    assert all("-m attnmem" in line for line in selecting)
