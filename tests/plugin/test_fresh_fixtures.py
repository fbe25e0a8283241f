"""A test that runs again has fixtures as if for the first time."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

#: The device by a name that nobody can read in the code, so that the body runs again.
SUITE = """
import pytest, torch

CUDA = "cu" "da "
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
    torch.ones(256).to(CUDA.strip())

def test_what_happened():
    assert events == ["shared", "made", "torn down", "made", "torn down"]

@pytest.mark.memory_budget("1 MiB")
class TestMethods:
    def setup_method(self):
        self.tensors = [torch.ones(256)]

    def test_it(self):
        self.tensors.pop().to(CUDA.strip())

@pytest.mark.memory_budget("1 MiB", warmup=1)
def test_warm(layers):
    layers.append(1)
    torch.ones(256).to(CUDA.strip())
    assert len(layers) in (3, 4), "two, and one for each run that counts"

made = []

@pytest.fixture
def once():
    assert not made, "it can be made once"
    made.append(1)

@pytest.mark.memory_budget("1 MiB")
def test_once(once): torch.ones(256).to(CUDA.strip())
"""


def test_the_fixtures_of_a_test_are_made_anew_unless_one_can_be_made_once(suite):
    suite.write(SUITE)
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 4, "failed": 1}
    within = [row["peak_bytes"] for row in ran.rows if row["outcome"] == "within"]
    assert within == [1024] * 3
    assert ran.outcome("test_once").startswith(
        "not enforced: the test must run again, and its fixture 'once' cannot: AssertionError: it"
        " can be made once"
    )
    assert ran.outcome("test_once").endswith("; name the device of each tensor")


def test_what_the_first_run_left_in_fixtures_of_pytest_is_taken_back(suite):
    suite.write("""
import logging, os, pytest, torch, warnings

CUDA = "cu" "da "

@pytest.fixture
def written(monkeypatch, tmp_path):
    monkeypatch.setenv("WRITTEN", "1")
    (tmp_path / "first").write_text("")

@pytest.mark.memory_budget("1 MiB")
def test_it(written, tmp_path, tmpdir, capsys, caplog, recwarn, monkeypatch):
    assert os.environ["WRITTEN"] == "1" and not hasattr(os, "of_the_test")
    monkeypatch.setattr(os, "of_the_test", 1, raising=False)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("")
    print("printed")
    logging.getLogger("of_the_test").warning("logged")
    warnings.warn("warned")
    torch.ones(256).to(CUDA.strip())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "folder"]
    assert capsys.readouterr().out == "printed\\n"
    assert [record.message for record in caplog.records] == ["logged"]
    assert len(recwarn) == 1

@pytest.mark.memory_budget("1 MiB")
def test_bytes(capfdbinary):
    os.write(1, b"written")
    torch.ones(256).to(CUDA.strip())
    assert capfdbinary.readouterr().out == b"written"
""")
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 2}


def test_a_body_that_names_the_device_runs_once(suite):
    ran = suite.tests("""
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs = []

def moved(x):
    return x.to(DEVICE)

@pytest.mark.memory_budget("1 MiB")
def test_by_a_constant():
    x = torch.ones(256)
    runs.append(1)
    x.to(DEVICE)
    assert len(runs) == 1

@pytest.mark.memory_budget("1 MiB", warmup=1)
def test_by_a_function():
    runs.append(1)
    moved(torch.ones(256))
    assert len(runs) in (2, 3)

@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.memory_budget("1 MiB")
def test_by_an_argument(device):
    x = torch.ones(256)
    runs.append(1)
    x.to(device)
    assert len(runs) in (3, 4)

@pytest.mark.memory_budget("1 MiB")
def test_of_another_branch():
    x = torch.ones(256) * 2
    if len(runs) > 100:
        x.cuda()
""").run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 4, "failed": 1}
    assert [row["peak_bytes"] for row in ran.rows] == [1024, 1024, 1024, 1024, 0]
    assert ran.outcome("test_of_another_branch") == (
        "not enforced: nothing was allocated: the test names 'cuda', so its tensors without a"
        " device were on the CPU"
    )
