"""Values of hand-written Triton kernels on the null device, run by Triton's interpreter."""

import pytest

NOTED = """
import torch
import triton_value_kernels as kernels
from pytest_attnmem.backends.null.noting import noting
from pytest_attnmem.backends.null.program import prepare
prepare(LIMIT)
def on(data, dtype=torch.float32):
    return torch.tensor(data, device="cuda", dtype=dtype)
def numbers(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count).view(shape) / count - 0.4).to(dtype)
def error(run):
    try:
        return run()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
"""
LOST = "UnknownValue: a value was read that is not known: "


@pytest.fixture
def compiled(tmp_path_factory):
    """Returns the folder of the kernels that Triton compiled, one for all tests."""
    return str(tmp_path_factory.getbasetemp() / "triton")


@pytest.fixture
def noted(under, compiled):
    """Returns a function that runs a script whose operators are noted."""
    pytest.importorskip("triton")

    def run(script, limit=10**11):
        script = NOTED.replace("LIMIT", str(limit)) + script
        return under(script, TRITON_CACHE_DIR=compiled)

    return run


def test_what_a_kernel_writes_is_read(noted):
    """Nested functions, libdevice, narrow floats, reductions, products, grids, tuning, views."""
    script = """
different = []
def compare(name, found, wanted, within=1e-5):
    found = found.cpu()
    same = found.shape == wanted.shape and found.dtype == wanted.dtype
    if not same or not torch.allclose(found.float(), wanted.float(), rtol=within, atol=within):
        different.append([name, found.tolist(), wanted.tolist()])

def elementwise(x, scale, doubled):
    a = x * x + x
    return (torch.exp(torch.tanh((a * 0.5).float())) + a.float() ** 2) * scale * (1 + doubled)

for dtype in (torch.float32, torch.float16, torch.bfloat16):
    x = numbers(50, dtype=dtype)
    given, out = x.cuda(), torch.empty(50, device="cuda", dtype=dtype)
    grid = lambda meta: (-(-50 // meta["BLOCK"]),)
    kernels.elementwise[grid](given, out, 50, 0.25, True, BLOCK=16)
    compare(f"elementwise {dtype}", out, elementwise(x, 0.25, True).to(dtype), 2**-8)
    kernels.elementwise[(1,)](given, out, 50, 0.5, False, BLOCK=64)  # compiled after a read
    compare("compiled again", out, elementwise(x, 0.5, False).to(dtype), 2**-8)
    x = numbers(4, 12, dtype=dtype)
    a, out = x[1:, ::2].float(), torch.empty(3, 6, device="cuda", dtype=dtype)
    part = x.cuda()[1:, ::2].contiguous()
    kernels.rows[(3,)](part, out, 6, part.stride(0), BLOCK=8)
    wanted = a / (a * a).sum(1, True) + a.max(1, True).values + a.cumsum(1)
    compare(f"rows {dtype}", out, wanted.to(dtype), 2**-5)
    a, b = numbers(16, 16, dtype=dtype), numbers(16, 16, dtype=dtype).t().contiguous()
    out = torch.empty(16, 16, device="cuda", dtype=dtype)
    kernels.product[(1,)](a.cuda(), b.cuda(), out, N=16)
    compare(f"product {dtype}", out, (a.float() @ b.float()).to(dtype), 2**-7)

x, total = on([float(i) for i in range(64)]), torch.zeros((), device="cuda", dtype=torch.bfloat16)
kernels.counted[(2,)](x[16:48], total, BLOCK=16)  # a view, in place
wanted = torch.arange(64.)
compare("total", total, wanted[16:48].sum().bfloat16(), 2**-7)
wanted[16:48] += 1
compare("in place", x, wanted)
compare("after it", x.view(8, 8).t() + 1, wanted.view(8, 8).t() + 1)

y, out = numbers(32), torch.empty(32, device="cuda")
kernels.tuned[lambda meta: (-(-32 // meta["BLOCK"]),)](y.cuda(), out, 32, 1.0, False)
compare("autotune", out, elementwise(y, 1.0, False))
x, total = y.cuda(), on(5.0)
kernels.added_by_tuned[lambda meta: (32 // meta["BLOCK"],)](x, total)
compare("tuned in place", x, y + 1); compare("reset", total, y.sum())
kernels.chosen[(1,)](y.cuda(), out, 32, 2.0, False)
compare("heuristics", out, elementwise(y, 2.0, False))

kernels.of_parts[(1,)]((y.cuda(), on(list(range(32)))), out, BLOCK=32)
compare("a tuple", out, y - torch.arange(32))
import triton
halves = y.half()
bits = triton.reinterpret(halves.cuda().view(torch.int16), triton.language.float16)
kernels.reinterpreted[(1,)](bits, out, BLOCK=32)
compare("reinterpreted", out, halves.float() * 2)

wrong = error(lambda: torch.testing.assert_close(out, out + 1))
answer(different, noting().reads.unknown, counts.device_reads(), wrong.splitlines()[0])
"""
    different, unknown, zeros, wrong = noted(script)
    assert (different, unknown, zeros) == ([], [], 0)
    assert wrong == "AssertionError: Tensor-likes are not close!"


def test_a_tuned_kernel_keeps_no_argument(noted):
    """Triton lets its arguments go when it has run: it holds 4 MiB before, and none after."""
    script = """
levels, timings = [], []
for n in (32, 64):  # a key each
    y, out = torch.empty(MIB, device="cuda"), torch.empty(n, device="cuda")
    kernels.tuned[lambda meta: (-(-n // meta["BLOCK"]),)](y, out, n, 1.0, False)
    timings.append([time[0] for time in kernels.tuned.configs_timings.values()])
    levels.append(torch.cuda.memory_allocated())
    del y, out
    levels.append(torch.cuda.memory_allocated())
answer(levels, timings)
"""
    levels, timings = noted(script)
    assert levels == [4 * 2**20 + 512, 0] * 2
    assert timings == [[1.0, float("inf")]] * 2  # of each key, the first configuration is taken


def test_what_the_interpreter_cannot_run_is_unknown_in_one_line(noted):
    script = """
def written(launch, *shape):
    x = torch.zeros(shape, device="cuda")
    known = torch.ones(2, device="cuda")
    launch(x)
    return error(lambda: x.sum().item()), error(known.tolist)
answer(
    written(lambda x: kernels.assembled[(1,)](x, BLOCK=16), 16),
    written(lambda x: kernels.outside[(1,)](x, 2**20, BLOCK=16), 16),
    written(lambda x: kernels.waiting[(1,)](x), 1),
    written(lambda x: kernels.elementwise[(10**4,)](x, x, 1, 1.0, False, BLOCK=16), 16),
    written(lambda x: kernels.pointed[(1,)](x.data_ptr()), 1))
"""
    assembled, outside, waiting, large, pointed = noted(script)
    cannot = f"{LOST}Triton's interpreter cannot run"
    assert assembled == [
        f"{cannot} assembled: inline_asm not supported in interpreter mode",
        [1, 1],
    ]
    assert outside == [f"{cannot} outside: it uses an address that is outside its tensors", [1, 1]]
    limit = "--attnmem-values-limit"
    assert waiting == [
        f"{LOST}it takes more floating-point operations than {limit}, which is 1.0e+11", [1, 1]
    ]  # fmt: skip
    assert large == [
        f"{LOST}it takes 2.0e+11 floating-point operations, and {limit} is 1.0e+11", [1, 1]
    ]  # fmt: skip
    numbers = "a Triton kernel ran that makes pointers of numbers, and nobody knows what it wrote"
    assert pointed == [f"{LOST}{numbers}"] * 2


BYTES = """
peaks = []
for read in READS:
    torch.cuda.reset_peak_memory_stats()
    x = torch.ones(4096, device="cuda")
    out = torch.empty(4096, device="cuda", dtype=torch.bfloat16)
    kernels.elementwise[(128,)](x, out, 4096, 1.0, False, BLOCK=32)
    if read: out.tolist()
    y = out * 2
    stats = torch.cuda.memory_stats()
    kinds = ("requested", "allocated", "reserved")
    peaks.append([stats[f"{kind}_bytes.all.peak"] for kind in kinds])
    del x, out, y
answer(*peaks)
"""


def test_a_read_changes_no_byte(noted, under, compiled):
    unread, read, again = noted(BYTES.replace("READS", "(False, True, False)"))
    plain = NOTED.replace("prepare(LIMIT)", "") + BYTES.replace("READS", "(False,)")
    assert unread == read == again == under(plain, TRITON_CACHE_DIR=compiled)[0]
