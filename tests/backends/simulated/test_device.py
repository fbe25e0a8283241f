"""The device in a program: its tensors are PyTorch's own, and what is refused has one line."""

import gc
import subprocess
import sys

import pytest
import torch

from pytest_attnmem.errors import CannotSimulate


@pytest.fixture
def device(backends):
    """The backend, inside whose world the test runs, once the device is named."""
    backend = backends()
    backend.forget()
    backend.name_device()
    with backend.world():
        yield backend


def held(device):
    return device.simulation.device.statistics.requested.current


def made(*shape):
    return torch.ones(*shape, device="cuda")


def test_a_tensor_is_plain(device):
    x = made(2, 3)
    storage = x.untyped_storage()
    assert (type(x), str(x.device), storage.nbytes()) == (torch.Tensor, "cuda:0", 24)
    assert x.data_ptr() == storage.data_ptr() != 0
    assert x.requires_grad_().is_leaf


@pytest.mark.filterwarnings("ignore:B?Complex(Half|32) support is experimental")
def test_each_dtype_is_made(device):
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    wrong = []
    for dtype in sorted(dtypes, key=str):
        if any(word in str(dtype) for word in ("int1", "int2", "int3", "int5", "int6", "int7")):
            continue  # those of less than a byte, and those that are 16, 32 and 64 wide
        if not str(dtype).startswith(("torch.q", "torch.bits", "torch.uint4", "torch.int4")):
            try:
                x = torch.empty(3, dtype=dtype, device="cuda")
            except CannotSimulate as error:
                wrong.append(str(error))
                continue
            if x.dtype != dtype or x.untyped_storage().nbytes() != 3 * dtype.itemsize:
                wrong.append(str(dtype))
    refused = "tensors of torch.bcomplex32 cannot be simulated; use backend='null' or 'cuda'"
    assert wrong == [refused] * hasattr(torch, "bcomplex32")  # since 2.15


def test_memory_ends_with_the_last_view(device):
    before = held(device)
    x = made(10, 10)
    row = x[3]
    assert held(device) - before == 400
    del x
    assert held(device) - before == 400
    del row
    assert held(device) == before


def test_an_error_frees_what_it_leaves(device):
    before = held(device)
    with pytest.raises(RuntimeError, match="must have same reduction dim"):
        made(4, 4) @ made(5, 5)
    gc.collect()
    assert held(device) == before


def test_a_call_that_is_known_needs_as_much_as_the_first(run):
    def program():
        q, k, v = (made(2, 4, 64, 32).requires_grad_() for _ in range(3))
        ((q @ k.mT).softmax(-1) @ v).sum().backward()

    first, *others = (run(program).peak_bytes for _ in range(3))
    scores, inputs = 2 * 4 * 64 * 64 * 4, 2 * 4 * 64 * 32 * 4
    assert others == [first] * 2
    assert first >= 3 * scores + 3 * inputs


def test_an_unknown_operator_is_told_each_time(run):
    for _ in range(2):
        assert run(lambda: torch.linalg.matrix_exp(made(2, 9, 9))).unmeasured == (
            "no model of aten.linalg_matrix_exp.default; use backend='null' or 'cuda'"
        )


def test_a_size_that_values_tell_is_not_remembered(device):
    x = torch.arange(6, device="cuda")
    assert [x[x > limit].shape[0] for limit in (1, 4, 1)] == [4, 1, 4]


def test_values_are_read(device):
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    x[0].mul_(2)
    y = x.t() @ x
    assert y.sum().item() == 180
    assert y.cpu().tolist() == [[9, 12, 15], [12, 20, 28], [15, 28, 41]]
    assert bool((y == y.mT).all())
    assert torch.equal(x, x + 0)


def more(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_transforms_and_scripts_run_in_cpp(device):
    x = made(8, 3)
    assert torch.func.vmap(torch.func.grad(lambda row: (row**2).sum()))(x).sum().item() == 48
    assert torch.func.jvp(torch.sin, (x,), (x,))[1].shape == (8, 3)
    assert torch.jit.script(more)(x).sum().item() == 72


def test_a_storage_is_resized(device):
    x = made(100)
    before = held(device)
    x.untyped_storage().resize_(0)
    assert before - held(device) == 400
    x.untyped_storage().resize_(400)
    assert (held(device), x.untyped_storage().nbytes()) == (before, 400)


def test_a_target_grows(device):
    out = torch.empty(0, device="cuda")
    torch.add(made(5), 1, out=out)
    assert out.tolist() == [2] * 5


def test_the_compiler_knows_the_functions_of_devices(device):
    import torch._dynamo.variables.torch as variables

    assert variables.TorchInGraphFunctionVariable._get_handlers()


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (
            lambda: torch.nested.as_nested_tensor([made(2, 3), made(4, 3)]),
            "aten._nested_tensor_from_tensor_list.default of a nested tensor cannot be simulated;"
            " use backend='null' or 'cuda'",
        ),
        (
            lambda: made(3).to_sparse(),
            "aten._to_sparse.default cannot be simulated: PyTorch has no rule of its shapes",
        ),
        (
            lambda: made(3, 3) @ torch.ones(3, 3),
            "Expected all tensors to be on the same device, but found at least two devices, cuda:0"
            " and cpu!",
        ),
    ],
    ids=["nested", "sparse", "two devices"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_it_cannot_do_is_refused(device, call, refusal):
    with pytest.raises((RuntimeError, CannotSimulate)) as refused:
        call()
    assert str(refused.value) == refusal


def test_no_tensor_of_the_device_is_made_outside_a_window():
    script = (
        "import torch\n"
        "from pytest_attnmem.backends.registry import open_backend\n"
        "open_backend('simulated:A100-80GB').prime()\n"
        "torch.ones(3, device='cuda')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "AssertionError: Torch not compiled with CUDA enabled"
