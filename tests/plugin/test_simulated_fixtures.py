"""Fixtures of a simulated session: what they run on the device has the values of a device."""


def test_parts_casts_and_measurements_are_as_in_windows(pytester):
    pytester.makepyfile(
        """
        import pytest, torch
        from pytest_attnmem import measure

        @pytest.fixture
        def parts():
            x = torch.arange(24.0, device="cuda").reshape(4, 6)
            return x.tensor_split(torch.tensor([1, 3]))

        @pytest.fixture
        def cast():
            layer = torch.nn.Linear(4, 4, device="cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                y = layer(torch.arange(12.0, device="cuda").reshape(3, 4))
            (y.sum() * 65536).backward()
            return y, layer.weight.grad

        @pytest.mark.memory_budget("1 KiB")
        def test_values(parts, cast):
            assert [len(part) for part in parts] == [1, 2, 1]
            assert torch.tensor([torch.tensor(2.0)]).tolist() == [2.0]  # a tensor is no sequence
            y, grad = cast
            assert y.dtype is torch.float16 and not torch.isfinite(grad).all()
            assert y.type(torch.float32).type() == "torch.cuda.FloatTensor"

        def test_measured():
            measured = measure(lambda: torch.ones(1000, device="cuda") * 2)
            assert measured.backend == "simulated:A100-80GB" and measured.peak_bytes == 8000
        """
    )
    pytester.runpytest("--attnmem-backend=simulated:A100-80GB").assert_outcomes(passed=2)


PROGRAMS = """
import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def ramp(*sizes):
    return torch.linspace(-1, 1, numpy.prod(sizes)).reshape(sizes)


def network(kind):
    def run(device):
        torch.manual_seed(0)
        network = getattr(nn, kind)(4, 6, 2, bidirectional=True).to(device)
        packed = pack_padded_sequence(ramp(5, 2, 4).to(device), torch.tensor([5, 3], device="cpu"))
        shown = pad_packed_sequence(network(packed)[0])[0]
        shown.sum().backward()
        return shown, network(ramp(5, 2, 4).to(device))[0], network.weight_hh_l1.grad

    return run


def indices(device):
    x = ramp(6, 5).to(device).requires_grad_()
    written = x.detach().clone()
    written[[[0], [1]], [2, 3]] = 5.0
    found = x[[0, 2, 2]], x[[True, False] * 3], x[x > 0], x[None, ..., 1], written
    sum(part.sum() for part in found).backward()
    return *found, x.grad


def ctc(device):
    x = ramp(10, 2, 5).log_softmax(-1).to(device).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [2, 3, 4]], device=device)
    F.ctc_loss(x, targets, torch.tensor([10, 9]), torch.tensor([3, 2])).backward()
    return x.grad


def scripted(device):
    @torch.jit.script
    def function(x):
        return x + 1 if x.sum() > 0 else x - 1

    return function(ramp(4).to(device))


def traced(device):
    return torch.jit.trace(nn.ReLU(), ramp(4).to(device))(ramp(4).to(device))


def storages(device):
    x = ramp(4).to(device)
    storage = x.untyped_storage()
    assert storage.device == x.device and storage.nbytes() == 16
    assert torch.UntypedStorage(8, device=device).device == x.device
    assert storage.cpu().device.type == "cpu"
    seen = torch.empty(0, device=device).set_(storage.clone(), 1, (2,), (1,))
    x.zero_()
    return seen, torch.empty(0, device=device).set_(storage, 1, (2,), (1,))


def pinned(device):
    pin = device != "cpu"
    made = torch.zeros(2, device="cpu", pin_memory=pin)
    x = ramp(3).cpu()
    assert not x.is_pinned() and made.pin_memory().is_pinned()
    return made.to(device), (x.pin_memory().to(device, non_blocking=True) if pin else x)


def lists(device):
    x = ramp(2, 2).to(device)
    made = torch.hann_window(5, device=device), torch.as_tensor(numpy.ones(3), device=device)
    return torch.tensor([x[0, 0], x[1, 1]]), torch.tensor([[x[0, 0], 2.0]], device=device), *made


def compiled(device):
    x = ramp(3, 4).to(device).requires_grad_()
    torch.compile(lambda x: (x * 2).relu().sum(-1), backend="aot_eager")(x).sum().backward()
    return x.grad


def biased(device):
    q = ramp(1, 2, 8, 8).to(device)
    bias = causal_lower_right(8, 8)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=bias)


def quantiles(device):
    x = ramp(10).to(device)
    return x.quantile(0.3), x.nanquantile(torch.tensor([0.2, 0.5], device=device))


CASES = {kind: network(kind) for kind in ("LSTM", "GRU", "RNN")}
CODE = scripted, traced, compiled
for case in (*CODE, indices, ctc, storages, pinned, lists, biased, quantiles):
    CASES[case.__name__] = case


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def found(case):
    return case("cpu"), case("cuda")


def same(wanted, found):
    torch.testing.assert_close(torch.utils._pytree.tree_map(lambda x: x.cpu(), found), wanted)


def test_fixture(found):
    same(*found)


@pytest.mark.memory_budget("1 GiB")
def test_window(case):
    same(case("cpu"), case("cuda"))
"""


def test_programs_have_the_values_of_the_host_in_fixtures_and_windows(pytester):
    pytester.makepyfile(PROGRAMS)
    options = "--attnmem-backend=simulated", "--attnmem-strict=off", "-Wignore::DeprecationWarning"
    result = pytester.runpytest(*options)
    result.assert_outcomes(passed=26)
    result.stdout.fnmatch_lines("attnmem: 13 budgets, 8 within, 0 over, 5 not enforced*")


MOVED = """
import pytest, torch
from torch import nn

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(100))
        self.register_buffer("mask", torch.ones(1000))
        self.register_buffer("same", self.mask)

@pytest.fixture(scope="module")
def held(): return [torch.ones(1000, device="cuda")]

def linear(): return nn.Linear(300, 300).cuda()
def shared(): return Shared().cuda()
def norm(): return nn.BatchNorm1d(300)

CASES = {
    "linear double": (linear, lambda m: m.double()),
    "linear half": (linear, lambda m: m.half()),
    "linear cpu": (linear, lambda m: m.cpu()),
    "shared double": (shared, lambda m: m.double()),
    "shared on the host": (Shared, lambda m: m.cuda()),
    "norm on the host": (norm, lambda m: m.double().float()),
    "data": (None, lambda m: setattr(m[0], "data", m[0].data.double())),
    "replaced": (None, lambda m: m.insert(0, m.pop().half())),
}

@pytest.fixture
def made(request, case):
    make = CASES[case][0]
    return make() if make else request.getfixturevalue("held")

@pytest.mark.memory_budget("1 GiB")
@pytest.mark.parametrize("case", CASES)
def test_it(made, case):
    CASES[case][1](made)
    torch.ones(8, device="cuda")
"""


def test_moves_of_what_a_fixture_made_need_what_a_device_needs(suite):
    """The numbers are those of the null device."""
    suite.write(MOVED)
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 8}
    found = {row["nodeid"].split("[")[1][:-1]: row for row in ran.rows}
    assert {case: (row["peak_bytes"], row["retained_bytes"]) for case, row in found.items()} == {
        "linear double": (720_000, 361_200),
        "linear half": (180_000, -180_600),
        "linear cpu": (0, -361_200),
        "shared double": (12_400, 8_400),
        "shared on the host": (8_432, 8_400),
        "norm on the host": (32, 0),
        "data": (8_000, 4_000),
        "replaced": (2_000, -6_000),
    }


SHARED = """
import copy
import pytest, torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(30, 30)
        self.register_buffer("offset", torch.ones(100))

    def forward(self, x):
        return self.layer(x) + self.offset[:30]

@pytest.fixture(scope="session")
def model():
    return Network()

@pytest.fixture(scope="module")
def plain():
    return torch.ones(1000)

@pytest.fixture(scope="module")
def warm():
    return Network()

@pytest.fixture(scope="module")
def on_host():
    return Network()

budget = pytest.mark.memory_budget("1 MiB")

@budget
@pytest.mark.parametrize("time", [1, 2])
def test_moved(model, time):
    model.to("cuda")(torch.ones(2, 30, device="cuda")).sum().backward()

def test_unmarked(model):
    assert model.layer.weight.is_cuda and model.layer.weight.grad.is_cuda

@budget
def test_kept(model):
    assert model.layer.weight.grad is not None and model.offset.is_cuda
    assert copy.deepcopy(model).layer.weight.grad is None
    model.requires_grad_(False).zero_grad()
    torch.ones(8, device="cuda")

@budget
def test_frozen(model):
    assert not any(parameter.requires_grad for parameter in model.parameters())
    model.cpu()(torch.ones(2, 30))
    torch.ones(8, device="cuda")

@pytest.mark.memory_budget("1 MiB", warmup=1)
def test_warm(warm):
    warm.to("cuda")(torch.ones(2, 30, device="cuda")).sum().backward()

@budget
@pytest.mark.parametrize("time", [1, 2])
def test_data(plain, time):
    plain.data = plain.data.cuda()
    plain * 2

@budget
@pytest.mark.parametrize("time", [1, 2])
def test_on_host(on_host, time):
    on_host.double()(torch.ones(2, 30).double()).sum().backward()
    assert on_host.layer.bias.grad[0].item() == 2 * time

@pytest.fixture(scope="module")
def counts():
    return torch.arange(4.0)

@budget
@pytest.mark.parametrize("time", [1, 2])
def test_written(counts, time):
    counts.mul_(2)
    assert counts[1].item() == 2**time
    torch.ones(8, device="cuda")

def test_written_before(counts):
    assert counts.tolist() == [0, 4, 8, 12]

HELD = {}

@budget
def test_held():
    HELD["x"] = torch.ones(1000)

@budget
def test_let_go():
    HELD.clear()
    torch.ones(8)
"""


def test_what_a_test_did_to_a_shared_fixture_stays_so(suite):
    """The numbers are those of the null device, and of the CPU where no device is named."""
    suite.write(SHARED)
    ran = suite.run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 15}
    found = {row["nodeid"].partition("::test_")[2]: row for row in ran.rows}
    assert {case: (row["peak_bytes"], row["retained_bytes"]) for case, row in found.items()} == {
        "moved[1]": (8_208, 7_840),
        "moved[2]": (4_088, 0),
        "kept": (4_120, -3_720),
        "frozen": (0, -4_120),
        "warm": (4_088, 0),
        "data[1]": (8_000, 4_000),
        "data[2]": (4_000, 0),
        "on_host[1]": (12_296, 11_560),
        "on_host[2]": (8_176, 0),
        "written[1]": (32, 0),
        "written[2]": (32, 0),
        "held": (4_000, 4_000),
        "let_go": (32, 0),  # the CPU hears the end of what the window never used
    }


def test_what_a_program_puts_in_the_place_of_pytorch(suite):
    """It stays while the program wants it, and is gone for the next tests."""
    ran = suite.tests("""
CUDA = torch.cuda
NAMES = [(CUDA, "is_available"), (CUDA, "synchronize"), (torch, "load"), (torch, "rand")]

def mocked(*args, **kwargs):
    return "mocked"

@pytest.fixture
def before(request, monkeypatch):
    monkeypatch.setattr(*request.param, mocked)
    return request.param

@pytest.mark.parametrize("before", NAMES, indirect=True)
@pytest.mark.memory_budget("1 MiB")
def test_before(before):
    assert getattr(*before)() == "mocked"
    torch.ones(4, device="cuda")

@pytest.mark.parametrize("name", NAMES)
@pytest.mark.memory_budget("1 MiB")
def test_inside(name, monkeypatch):
    monkeypatch.setattr(*name, mocked)
    assert getattr(*name)() == "mocked"
    torch.ones(4, device="cuda")

def test_without_a_budget():
    assert torch.cuda.is_available() and torch.rand(4, device="cuda").is_cuda

@pytest.mark.memory_budget("1 MiB")
def test_after():
    torch.cuda.synchronize()
    assert torch.cuda.is_available() and torch.rand(4, device="cuda").is_cuda
""").run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 10}
    assert {row["outcome"] for row in ran.rows} == {"within"}


def test_what_a_test_without_a_device_leaves_in_a_cache(suite):
    """The next tests find it on the host, with its values."""
    ran = suite.tests("""
import functools

@functools.lru_cache
def table(n):
    return torch.arange(n).float()

@pytest.fixture(scope="module")
def model():
    return torch.nn.Linear(4, 4)

@pytest.fixture(scope="module")
def optimizer(model):
    return torch.optim.Adam(model.parameters())

def step(model, optimizer):
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
    return loss

@pytest.mark.memory_budget("1 MiB")
def test_on_the_device(model, optimizer):
    assert table(64).sum() == 2016
    step(model, optimizer)
    model.head = torch.nn.Linear(4, 2)

@pytest.mark.memory_budget("1 MiB")
def test_on_the_host(model, optimizer):
    (torch.ones(64) * table(64)).to("cuda")
    step(model, optimizer).to("cuda")

def test_without_a_budget(model, optimizer):
    assert type(table(64)) is torch.Tensor and table(64)[3] == 3
    assert type(model.head.weight) is torch.nn.Parameter and model.head.weight.is_cpu
    assert step(model, optimizer) != 0
""").run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 3}
    assert ran.row("test_on_the_host")["peak_bytes"] == 256


def test_transforms_take_tensors_of_the_host_from_outside(suite):
    """They wrap them before an operator does; the host's tensors count nothing."""
    suite.tests("""
X = torch.arange(6.0).reshape(2, 3)

@pytest.fixture
def y(): return torch.ones(2, 3)

def loss(x): return (x * x).sum()

@pytest.mark.parametrize("transform", [torch.func.grad, torch.vmap, torch.func.hessian])
@pytest.mark.memory_budget("4 B")
def test_host(transform, y):
    torch.ones(1, device="cuda")
    assert transform(loss)(y).device.type == transform(loss)(X).device.type == "cpu"
    torch.func.jvp(loss, (X,), (y,))

@pytest.mark.memory_budget("3*24 + 8")
def test_device(y):
    grad = torch.func.grad(lambda x: loss(x.cuda()))(X)
    assert grad.tolist() == (2 * X).tolist() and grad.device.type == "cpu"
""")
    ran = suite.run("--attnmem-backend=simulated", "--attnmem-strict=all", "-Wignore")
    assert ran.outcomes == {"passed": 4}


def test_what_a_step_frees_and_the_gradients_of_a_fixture_are_older_than_the_window(suite):
    """What a step frees of the host's tensors lowers the level, as on a device."""
    ran = suite.tests("""
@pytest.fixture(scope="module")
def model():
    return torch.nn.Linear(16, 16)

@pytest.fixture(scope="module")
def optimizer(model):
    return torch.optim.Adam(model.parameters())

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_adam(model, optimizer, N):
    optimizer.zero_grad()
    model(torch.zeros(N, 16)).sum().backward()
    optimizer.step()

budget = pytest.mark.memory_budget("1 MiB")

@budget
def test_other(model): model(torch.zeros(4, 16))

@pytest.fixture
def layer():
    layer = torch.nn.Linear(32, 32, bias=False)
    layer(torch.ones(1, 32)).sum().backward()
    return layer

@budget
def test_norm(layer): torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)

@budget
def test_step(layer): torch.optim.SGD(layer.parameters(), momentum=0.9).step()

@budget
def test_zero(layer):  # Python sees the gradient first here
    layer.zero_grad()
    torch.ones(8)
""").run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 5}
    peaks = {test: ran.row(test)["peak_bytes"] for test in ("test_adam[64]", "test_other")}
    assert peaks == {"test_adam[64]": 9_224, "test_other": 512}
    left = {
        test: ran.row(test)["retained_bytes"] for test in ("test_norm", "test_step", "test_zero")
    }
    assert left == {"test_norm": 0, "test_step": 0, "test_zero": -4096}
