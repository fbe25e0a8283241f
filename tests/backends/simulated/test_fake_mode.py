"""A program on a simulated device: the answers that it gets, and the bytes that are counted."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pytest_attnmem.backends.simulated.fake_tensor import CUDA, IMPLICIT_CUDA
from pytest_attnmem.errors import CannotSimulate
from pytest_attnmem.measurement.window_stack import window

pytestmark = pytest.mark.usefixtures("kept_workspaces")


@pytest.fixture
def backend(backends):
    """Returns a backend with an empty device."""
    backend = backends()
    backend.forget()
    return backend


def naive(q, k, v):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def test_tensors_are_on_the_device_and_have_no_data(backend):
    with backend.world():
        x = torch.randn(2, 3, device="cuda", requires_grad=True)
        seen = [x.device, x.is_cuda, x.is_cpu, x.is_meta, x.get_device(), torch.get_device(x)]
        y = naive(x[None], x[None], x[None])
        y.sum().backward()
    assert seen == [CUDA, True, False, False, 0, 0]
    assert (y.device, x.grad.device, x.grad.shape) == (CUDA, CUDA, (2, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4),
        lambda: torch.ones(4, device="cuda:0"),
        lambda: torch.ones(4, device=0),
        lambda: torch.ones(4).cuda(),
        lambda: torch.ones(4).to("cuda"),
        lambda: torch.ones(4).to(torch.device("cuda"), torch.float32),
        lambda: torch.ones(4).to(device="cuda", non_blocking=True),
        lambda: torch.tensor([1.0, 2, 3, 4]),
        lambda: torch.ones(4, pin_memory=True).cuda(),
        lambda: torch.ones(4).cpu().cuda(0),
        lambda: torch.ones(4).to(torch.empty(0, device="cuda")),
        lambda: nn.Parameter(torch.ones(4)),
        lambda: torch.empty(0, device="cuda").new_ones(4),
        lambda: torch.tensor(1.0).cuda().expand(4),
    ],
)
def test_every_name_of_the_device_puts_one_tensor_there(backend, run, make):
    seen = run(make)
    assert seen.peak_bytes in (16, 4)
    with backend.world():
        assert make().device == CUDA


def test_a_tensor_moved_to_the_host_takes_no_device_memory(run):
    def offload():
        x = torch.ones(1000, device="cuda")
        x = x.cpu()
        assert (x.device.type, x.is_cuda) == ("cpu", False)
        return x

    seen = run(offload)
    assert (seen.peak_bytes, seen.retained_bytes) == (4000, 0)


def test_a_module_moved_to_the_host_and_back_is_there_for_cpp_code_too(run):
    seen_by_cpp = torch._C.TensorBase.device.__get__

    def program():
        layer = nn.Linear(2, 2, device="cuda")
        weight, devices = layer.weight, []
        for name in ("cuda", "cpu", "cuda"):
            layer.to(name)
            layer(torch.ones(1, 2, device=name)).sum().backward()
            devices.append((weight.device.type, weight.grad.device.type, seen_by_cpp(weight).type))
        assert layer.weight is weight
        assert weight.requires_grad
        assert devices[:2] == [("cuda", "cuda", "meta"), ("cpu", "cpu", "cpu")]
        assert devices[2][:2] == ("cuda", "cuda")

    run(program)


def test_a_number_stays_on_the_host_and_keeps_its_value(run):
    def program():
        step = torch.tensor(1.0)
        step += 1
        assert step.item() == 2
        return torch.ones(2, device="cuda") * step

    assert run(program).peak_bytes == 2 * 2 * 4


def test_another_device_is_refused_by_name(backend):
    with backend.world(), pytest.raises(CannotSimulate) as refused:
        torch.ones(1, device="cuda:1")
    assert str(refused.value) == (
        "the simulated backend has one device, 'cuda', not 'cuda:1'; use another backend"
    )


def test_the_device_has_the_properties_of_its_profile(backends):
    backend = backends("H100")
    backend.forget()
    with backend.world():
        assert torch.cuda.is_available()
        assert torch.cuda.is_initialized()
        assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
        assert torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_name() == "NVIDIA H100 (simulated)"
        properties = torch.cuda.get_device_properties(0)
        assert (properties.major, properties.multi_processor_count) == (9, 132)
        assert torch.cuda.is_bf16_supported()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        free, total = torch.cuda.mem_get_info()
        assert total == properties.total_memory > free


def test_the_allocators_functions_report_the_simulated_allocator(backend):
    with backend.world():
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        x = torch.ones(1000, device="cuda")
        del x
        assert torch.cuda.memory_allocated() == before
        assert torch.cuda.max_memory_allocated() == before + 4096
        stats = torch.cuda.memory_stats()
        assert stats["requested_bytes.all.peak"] == stats["requested_bytes.all.current"] + 4000
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved() > 0


def test_streams_and_events_work(run):
    def program():
        stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
        with torch.cuda.stream(stream), torch.cuda.device(0):
            assert torch.cuda.current_stream() == stream != torch.cuda.default_stream()
            x = torch.ones(10, device="cuda")
            event.record()
        torch.cuda.current_stream().wait_stream(stream)
        x.record_stream(torch.cuda.current_stream())
        assert event.query()
        assert event.elapsed_time(event) == 0

    assert run(program).reserved_bytes == 2 << 20


def test_a_generator_can_be_made_for_the_device(backend):
    with backend.world():
        generator = torch.Generator("cuda").manual_seed(1)
        assert generator.device == torch.device("cuda")  # without a number, as on a device
        assert isinstance(generator, torch.Generator)
        assert torch.randn(3, device="cuda", generator=generator).shape == (3,)
        torch.manual_seed(0), torch.cuda.manual_seed_all(0)
        torch.cuda.set_rng_state(torch.cuda.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_casts_as_on_a_device(backend, dtype):
    with backend.world():
        x, layer = torch.ones(4, 4, device="cuda"), nn.Linear(4, 4, device="cuda")
        with torch.autocast("cuda", dtype):
            low = [x @ x, layer(x), F.scaled_dot_product_attention(x, x, x), torch.mv(x, x[0])]
            wide = [low[0].softmax(-1), low[0].sum(), low[0].exp(), F.layer_norm(low[0], (4,))]
            mixed = [torch.addcmul(low[0], x, x), low[0] + x, torch.dot(x[0], low[0][0])]
            assert torch.is_autocast_enabled("cuda")
        assert {tensor.dtype for tensor in low} == {dtype}
        assert {tensor.dtype for tensor in wide + mixed} == {torch.float32}
        assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("owner", [torch, torch._C], ids=["torch", "torch._C"])
@pytest.mark.parametrize("outside", [False, True])
def test_autocast_casts_however_it_was_enabled(backend, owner, outside):
    def enable(now):
        owner.set_autocast_enabled("cuda", now)

    enable(outside)
    with backend.world():
        x = torch.ones(4, 4, device="cuda")
        if not outside:
            enable(True)
        enabled = (x @ x).dtype
        enable(False)
        assert (enabled, (x @ x).dtype) == (torch.float16, torch.float32)


def test_autocasts_kernels_are_replaced_only_where_a_program_enables_it(backend):
    def kernel():
        return torch._C._dispatch_dump("aten::mm").partition("AutocastCUDA")[2].splitlines()[0]

    plain = kernel()
    with backend.world():
        assert kernel() == plain
        with torch.autocast("cuda"):
            assert kernel() != plain
    assert kernel() == plain


def test_a_weight_is_cast_once_in_an_autocast(run):
    def program():
        layer = nn.Linear(64, 64, bias=False, device="cuda")
        x = torch.ones(1, 64, device="cuda", dtype=torch.float16)
        with torch.no_grad(), torch.autocast("cuda"):
            return [layer(x) for _ in range(3)]

    seen = run(program)
    assert seen.peak_bytes == 64 * 64 * (4 + 2) + 4 * 64 * 2  # one cast; x and three results
    assert seen.retained_bytes == 3 * 64 * 2


def test_every_patch_is_undone(backend):
    def state():
        modules = (torch, torch.cuda, torch.cuda.memory, torch.autograd, torch.random)
        owners = (*modules, torch.accelerator, torch.nn.Module, torch.UntypedStorage, torch._C)
        return [{name: id(value) for name, value in vars(owner).items()} for owner in owners]

    before = state()
    with pytest.raises(TypeError), backend.world(), backend.world():
        torch.ones("what", device="cuda")
    assert state() == before
    assert not torch.cuda.is_initialized()
    assert type(torch.ones(1)) is torch.Tensor
    x = torch.ones(3, requires_grad=True)
    (x * 2 + x).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_a_tensor_may_be_used_after_its_context(backend):
    with backend.world():
        x = torch.ones(3, 3, device="cuda", requires_grad=True)
    y = (x @ x).sum()
    y.backward()
    assert (x.grad.shape, repr(y)) == (
        (3, 3),
        "tensor(27., device='cuda:0', grad_fn=<SumBackward0>)",
    )


def test_nested_windows_have_their_own_numbers(backend):
    with window(backend) as outer:
        a = torch.ones(1000, device="cuda")
        with window(backend) as inner:
            b = torch.ones(500, device="cuda")
        del b
    assert (outer.measurement.peak_bytes, inner.measurement.peak_bytes) == (6000, 2000)
    assert [held.nbytes for held in inner.measurement.held] == [2000]
    assert outer.measurement.retained_bytes == a.untyped_storage().nbytes()


def test_the_numbers_are_the_same_each_time(run):
    def step():
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, device="cuda")
        layer(torch.ones(2, 16, 32, device="cuda")).sum().backward()

    numbers = {
        (seen.peak_bytes, seen.allocated_bytes, seen.reserved_bytes, seen.retained_bytes)
        for seen in (run(step) for _ in range(3))
    }
    assert len(numbers) == 1


def test_a_very_large_program_runs(run):
    def long():
        q, k, v = (torch.empty(1, 1, 131_072, 64, device="cuda") for _ in "qkv")
        return naive(q, k, v)

    seen = run(long, "B200")
    assert seen.peak_bytes == 2 * 131_072**2 * 4 + 3 * 131_072 * 64 * 4
    assert seen.out_of_memory is None


def test_running_out_of_memory_is_an_error_that_a_program_may_catch(run):
    caught = []

    def halved():
        size = 1 << 36
        while True:
            try:
                return torch.empty(size, dtype=torch.uint8, device="cuda")
            except torch.cuda.OutOfMemoryError as error:
                caught.append(str(error).partition(" GPU 0")[0])
                size //= 2

    seen = run(halved, "A100-40GB")
    assert caught == ["CUDA out of memory. Tried to allocate 64.00 GiB."]
    assert seen.retained_bytes == 1 << 35
    assert seen.out_of_memory.startswith("needs 64.0 GiB more at test_fake_mode.py:")


def test_held_tensors_have_operator_and_line(run):
    def program():
        weights = torch.ones(8, 64, 64, device="cuda").softmax(-1)
        return weights @ weights

    held = run(program).held
    assert [(h.shape, h.dtype, h.op, h.function) for h in held] == [
        ((8, 64, 64), "float32", "ones", "program"),
        ((8, 64, 64), "float32", "softmax", "program"),
    ]
    assert all(h.where.startswith("test_fake_mode.py:") for h in held)


def test_importing_the_backend_table_imports_no_torch():
    script = "import sys, pytest_attnmem.backends; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_cached_call_keeps_apart_a_named_device_and_none(backend):
    def made(**named):
        backend.forget()
        with backend.world():
            return torch.zeros(7, **named).__dict__["_fake_device"]

    assert made() is IMPLICIT_CUDA
    assert made(device="cuda") is CUDA
    assert made() is IMPLICIT_CUDA
