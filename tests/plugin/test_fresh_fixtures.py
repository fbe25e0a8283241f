"""A test that runs again has fixtures as if for the first time."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

SUITE = """
import pytest, torch

events = []

@pytest.fixture(scope="module")
def shared():
    events.append("shared")
    return []

@pytest.fixture
def layers(shared, tmp_path):
    events.append("made")
    yield [tmp_path, shared]
    events.append("torn down")

@pytest.fixture
def first(layers):
    return layers[0]

@pytest.fixture(autouse=True)
def always(request):
    request.node.always = []

@pytest.mark.memory_budget("1 MiB")
def test_that_changes_them(layers, first, request):
    assert layers.pop(0) == first, "the fixture is that of the first run"
    request.node.always.append(1)
    assert request.node.always == [1]
    torch.ones(256).to("cuda")

def test_what_happened():
    assert events == ["shared", "made", "torn down", "made", "torn down"]

@pytest.mark.memory_budget("1 MiB")
class TestMethods:
    def setup_method(self):
        self.tensors = [torch.ones(256)]

    def test_it(self):
        self.tensors.pop().to("cuda")

@pytest.mark.memory_budget("1 MiB", warmup=1)
def test_warm(layers):
    layers.append(1)
    torch.ones(256).to("cuda")
    assert len(layers) in (3, 4), "two, and one for each run that counts"
"""


def test_the_fixtures_of_a_test_are_made_anew(suite):
    suite.write(SUITE)
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 4}
    assert [row["peak_bytes"] for row in ran.rows] == [1024] * 3


def test_a_test_whose_fixture_is_made_once_is_not_enforced(suite):
    suite.write("""
import pytest, torch

made = []

@pytest.fixture
def once():
    if made:
        raise AssertionError("it can be made once")
    made.append(1)

@pytest.mark.memory_budget("1 MiB")
def test_it(once):
    torch.ones(256).to("cuda")
""")
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"skipped": 1}
    assert ran.outcome("test_it") == (
        "not enforced: the test must run again, and its fixture 'once' cannot: AssertionError: it"
        " can be made once; name the device of each tensor"
    )
