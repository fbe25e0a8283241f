"""Suites that choose their device by themselves, in a session on a simulated device."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

#: A suite as people write it for machines with and without a GPU.
IDIOM = """
import copy
import pytest, torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TABLE = torch.arange(1024, device=DEVICE)

class Model(torch.nn.Module):
    stream: torch.cuda.Stream | None = None

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1024, 64)
        self.head = torch.nn.Linear(64, 1024, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x))

@pytest.fixture(scope="session")
def model():
    return Model().to(DEVICE)

@pytest.fixture
def optimizer(model):
    return torch.optim.SGD(model.parameters())

@pytest.fixture
def ids():
    return [TABLE[:128].clone()]

budget = pytest.mark.memory_budget

@budget(128 * 64 * 4 + 128 * 1024 * 4, exact=True)
@pytest.mark.parametrize("time", [1, 2])
def test_forward(model, ids, time):
    with torch.no_grad():
        model(ids[0])

HELD = 128 * 1024 * 4 + 128 * 64 * 4

@budget(HELD - 128 * 8, exact=True, metric="retained")
def test_held(model, ids, request):
    with torch.no_grad():
        request.node.held = [model.embedding(ids[0]), model(ids[0])]
    ids.clear()

@budget(2 * 1024 * 64 * 4, exact=True)
def test_a_copy(model):
    other = copy.deepcopy(model)
    assert other.head.weight is other.embedding.weight
    other.head.weight.detach().clone()

@budget("1 MiB")
def test_training(model, optimizer, ids):
    model(ids[0]).sum().backward()
    optimizer.step()

def test_unmarked(model, ids):
    assert model.head.weight is model.embedding.weight
    assert model(ids[0]).shape == (128, 1024)
    assert (torch.ones(3) * 2).tolist() == [2, 2, 2]
    assert torch.nn.Linear(2, 2)(torch.ones(1, 2)).device.type == "cpu"
"""


@pytest.mark.parametrize("backend", ["cpu", "simulated:A100-80GB"])
def test_the_idiom_of_a_device_by_availability_runs_unchanged(suite, backend):
    suite.write(IDIOM)
    ran = suite.run(f"--attnmem-backend={backend}")
    assert ran.outcomes == {"passed": 6}
    assert [row["outcome"] for row in ran.rows] == ["within"] * 5


PLACES = """
import numpy, pytest, torch

@pytest.fixture(scope="module")
def on_device():
    return torch.nn.Linear(8, 8).cuda()

@pytest.fixture
def plain():
    return torch.nn.Linear(8, 8)

@pytest.fixture
def x():
    return torch.ones(4, 8)

budget = pytest.mark.memory_budget("1 MiB")

@budget
def test_nothing_named(plain, x):
    assert plain(x).is_cuda

@budget
def test_legacy_constructors_follow(x):
    y = x * torch.Tensor(8) * torch.FloatTensor([1.0] * 8)
    (y * torch.from_numpy(numpy.ones(8, dtype="float32"))).exp()

@budget
def test_named_by_a_fixture(on_device, x):
    y = on_device(x.to("cuda"))
    assert (y.device.type, x.device.type, torch.ones(8).device.type) == ("cuda", "cpu", "cpu")

@budget
def test_moved_in_the_body(plain, x):
    plain.to("cuda")(x.to("cuda"))

@budget
def test_all_on_the_cpu(plain, x):
    plain.to("cpu")(x.cpu()) * torch.Tensor(8) * torch.ones(8, device="cpu")

@budget
def test_met_on_the_cpu():
    torch.nn.Linear(8, 8).to("cpu")(torch.ones(4, 8))

@budget
def test_default_device(x):
    with torch.device("cuda"):
        y = torch.ones(8) + torch.tensor([1.0])
    assert y.is_cuda and not x.is_cuda

@budget
def test_mixed(on_device, x):
    on_device(x)

@budget
def test_mixed_and_caught(on_device, x):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        on_device(x)
    on_device(x.cuda())
"""


def test_each_tensor_is_where_the_program_puts_it(suite):
    suite.write(PLACES)
    ran = suite.run("--attnmem-backend=simulated")
    unnamed = (
        "a tensor was made on the host by code that PyTorch gives no device, such as"
        " torch.Tensor(…), and was used at test_suite.py:{}; name its device"
    )
    mixed = (
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and"
        " cpu!"
    )
    assert ran.short("test_mixed").endswith(f"RuntimeError: {mixed}")
    assert {
        row["nodeid"].partition("::test_")[2]: (row["reason"] or row["peak_bytes"])
        for row in ran.rows
    } == {
        "nothing_named": 4 * 8 * 4,
        "legacy_constructors_follow": unnamed.format(24),
        "named_by_a_fixture": 2 * 4 * 8 * 4,
        "moved_in_the_body": (8 * 8 + 8) * 4 + 2 * 4 * 8 * 4,
        "all_on_the_cpu": (
            f"nothing was allocated: it ended with RuntimeError: {mixed}, and its tensors were on"
            " the device, though it named none"
        ),
        "met_on_the_cpu": unnamed.format(42),
        "default_device": 2 * 8 * 4 + 4,
        "mixed": "the test failed: RuntimeError",
        "mixed_and_caught": 2 * 4 * 8 * 4,
    }
    assert ran.outcomes == {"passed": 5, "failed": 4}


def test_attnmem_device_is_the_device_of_the_tests_backend(suite):
    suite.tests("""
@pytest.fixture
def layer(attnmem):
    return torch.nn.Linear(8, 8, device=attnmem.device)

@pytest.mark.memory_budget(2 * 4 * 8 * 4, exact=True)
def test_it(layer, attnmem, request):
    device = {"cpu": "cpu", "simulated": "cuda:0"}[request.config.getoption("attnmem_backend")]
    assert (attnmem.device, type(attnmem.device)) == (device, str)
    with torch.no_grad():
        layer(torch.ones(4, 8, device=attnmem.device))
""")
    for backend in ("cpu", "simulated"):
        assert suite.run(f"--attnmem-backend={backend}").outcomes == {"passed": 1}


def test_disabled_the_session_sees_no_device(suite):
    suite.write("""
def test_it(request): assert not request.config.pluginmanager.has_plugin("attnmem-simulated")
""")
    assert suite.run("--attnmem-backend=simulated", "--attnmem-disable").outcomes == {"passed": 1}


def test_conftests_see_the_device_and_the_session_hides_it_at_its_end(suite):
    suite.write(
        """
import pytest, torch
from pytest_attnmem.profiles import PROFILES
from dataclasses import replace

FOUND = torch.cuda.is_available()
torch.zeros(4, device="cuda")

def pytest_attnmem_device_profiles():
    return [replace(PROFILES["A100-80GB"], name="Later")]
""",
        "conftest.py",
    )
    suite.tests("""
@pytest.mark.memory_budget("1 MiB")
def test_it(request):
    assert request.config.pluginmanager.get_plugin("attnmem-simulated")
    assert torch.ones(3, device="cuda").is_cuda
    assert not torch.ones(3).is_cuda  # the conftest file named the device

@pytest.mark.memory_budget("1 MiB", backend="simulated:Later")
def test_another_device():
    assert torch.cuda.get_device_name() == "NVIDIA Later (simulated)"
    assert torch.ones(3, device="cuda").is_cuda

@pytest.mark.memory_budget("1 MiB", backend="cuda")
def test_a_real_device():
    pass
""")
    import torch

    before = torch.cuda.is_available()
    ran = suite.run("--attnmem-backend=simulated:T4")
    assert ran.outcome("test_it") == ran.outcome("test_another_device") == "within"
    assert ran.outcome("test_a_real_device").startswith("not enforced: backend 'cuda' ")
    assert torch.cuda.is_available() == before
    assert (torch.Tensor.to, torch.nn.Module._apply.__module__) == (
        torch._C.TensorBase.to,
        "torch.nn.modules.module",
    )


WITHOUT_TORCH = """
import sys
import pytest

before = [*sys.meta_path]
arguments = ["-q", "-pno:cacheprovider", "--attnmem-backend=simulated", sys.argv[1]]
assert pytest.main(arguments) == 0
assert "torch" not in sys.modules
assert all("attnmem" not in type(finder).__module__ for finder in sys.meta_path)
"""


def test_a_suite_without_torch_does_not_import_it(tmp_path):
    (tmp_path / "test_plain.py").write_text("def test_it():\n    assert True\n")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)]
    assert subprocess.run(command, check=False, cwd=tmp_path).returncode == 0


@pytest.mark.thorough
def test_real_devices_are_hidden_and_one_is_there_though_a_program_asks_first_for_torch(
    pytester, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    pytester.makeconftest(
        """
        import importlib.util
        assert importlib.util.find_spec("torch")
        import torch
        DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
        """
    )
    pytester.makepyfile(
        """
        import os
        import conftest
        import torch

        def test_it():
            assert conftest.DEVICE == "cuda"
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
            assert torch.ones(1, device="cuda").is_cuda
        """
    )
    result = pytester.runpytest_subprocess("--attnmem-backend=simulated")
    result.assert_outcomes(passed=1)
