"""Values on the null device: what a program reads is what a device would have computed."""

import pytest
from recordings import read


def test_values_are_the_host_s(noted):
    """Data from the host, sizes from data, in-place and views, autograd, random numbers."""
    script = """
import io, numpy
def both(program):
    return [program(device) for device in ("cpu", "cuda")]

def sizes(device):
    x = torch.tensor([3., 0., 1., 3.], device=device)
    yield x.nonzero()
    yield x[x > 0]
    yield torch.masked_select(x, x == 3)
    yield x.unique(return_inverse=True, return_counts=True)
    yield torch.unique_consecutive(x)
    yield (x > 0).unique(return_counts=True)
    rows = torch.stack([x, x, x + 1])
    for inverse in (False, True):
        for counts in (False, True):
            given = {"dim": 0, "return_inverse": inverse, "return_counts": counts}
            yield torch.unique(rows, **given)
            yield torch.unique_consecutive(rows, **given)
    yield torch.repeat_interleave(x, torch.tensor([1, 0, 2, 1], device=device))
    first, last = torch.arange(2., device=device).unbind()
    yield torch.linspace(first, last, 3), torch.logspace(last, first, 3), torch.linspace(0, last, 2)
    yield torch.bincount(x.long())
    yield torch.segment_reduce(x, "sum", lengths=torch.tensor([1, 3], device=device))
    yield torch.logspace(x[1], x[2], 2, device=device)
    yield torch.histc(x, 3)
    yield F.one_hot(x.long())
    ends = torch.tensor([1, 3], dtype=torch.int32, device=device)
    rows, weights = torch.arange(12., device=device).view(3, 4), torch.ones(2, 4, 4, device=device)
    yield torch._grouped_mm(rows, weights, offs=ends)
    y = x.clone(); y[x > 0] = 7; yield y
    yield bool((x > 2).any()), torch.equal(x, x + 0), torch.allclose(x, x + 1e-9), int(x.argmax())

def from_the_host(device):
    buffer = io.BytesIO(); torch.save({"w": torch.arange(4.)}, buffer); buffer.seek(0)
    yield torch.load(buffer, map_location=device)["w"]
    yield torch.from_numpy(numpy.arange(3)).to(device)
    yield torch.as_tensor(numpy.ones(3), device=device)
    layer = nn.Linear(2, 2, device=device)
    layer.load_state_dict({"weight": torch.eye(2), "bias": torch.ones(2)})
    yield layer(torch.ones(1, 2, device=device)).detach()
    lazy, given = nn.LazyLinear(2).to(device), nn.LazyLinear(2, bias=False).to(device)
    yield lazy(torch.ones(1, 3, device=device)).shape, list(lazy.weight.shape)
    nn.init.constant_(lazy.weight, 2.0); nn.init.ones_(lazy.bias)
    yield lazy(torch.ones(1, 3, device=device)).detach()
    given.load_state_dict({"weight": torch.eye(2)}); yield given.weight.detach()
    torch.manual_seed(1)
    large = nn.Linear(300, 300).to(device)  # so large that the host's weights are not copied
    yield large.weight.detach().double().sum().item(), large.weight[7, :5].tolist()
    layer.weight.data = layer.weight.data * 3; yield layer.weight.detach()
    one, two = torch.arange(3., device=device).sum(), torch.tensor(2, device=device)
    yield torch.tensor([one, 2.5]), torch.tensor([[two], [1]], device=device).tolist()
    yield torch.arange(8., device=device)[[0, two],], one.new_tensor([one, two])
    yield torch.tensor([*torch.arange(5., device=device)])  # each at a place of its own
    if device == "cuda": yield torch.ones(3).pin_memory().to(device, non_blocking=True)
    else: yield torch.ones(3)

def trained(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1)).to(device)
    for make in (torch.optim.AdamW, torch.optim.LBFGS, torch.optim.Adafactor):
        optimizer = make(model.parameters(), lr=0.01)
        def closure():
            optimizer.zero_grad()
            loss = model(torch.arange(8., device=device).view(2, 4)).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss
        yield round(float(optimizer.step(closure)), 4)
    yield torch.func.grad(lambda x: (x ** 3).sum())(torch.ones(2, device=device))
    x = torch.arange(3., device=device, requires_grad=True)
    F.mish(F.silu(x)).sum().backward(); yield x.grad

def listed(value):
    if isinstance(value, torch.Tensor): return value.tolist()
    return [listed(v) for v in value] if isinstance(value, (tuple, list)) else value

different = []
for program in (sizes, from_the_host, trained):
    for number, (host, device) in enumerate(zip(*both(program), strict=True)):
        if listed(host) != listed(device):
            different.append([program.__name__, number, listed(host), listed(device)])
torch.manual_seed(5); first = torch.rand(3, device="cuda").tolist()
torch.manual_seed(5); again = torch.rand(3, device="cuda").tolist()
scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
w = torch.ones(2, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=1.0)
scaler.scale(w.sum()).backward()
scaler.step(optimizer)
scaler.update()
import threading
found = []
read = lambda: found.append(torch.ones(3, device="cuda").sum().item())
thread = threading.Thread(target=read)
thread.start()
thread.join()
with torch.inference_mode():
    found.append((torch.ones(3, device="cuda").max() == 1).item())
    halves = torch.ones(3, dtype=torch.bfloat16, device="cuda").subtract(0.5)  # of a composite
    found += [halves.multiply(2).tolist(), str(halves.divide(2).dtype)]
unknown = noting().reads.unknown
zeros = counts.device_reads()
answer(found, different, first == again, w.tolist(), scaler.get_scale(), unknown, zeros)
"""
    assert noted(script) == (
        [3, True, [1, 1, 1], "torch.bfloat16"],
        *([], True, [0, 0], 4.0, [], 0),
    )


def test_random_numbers_of_the_device_are_not_those_of_the_host(noted):
    """Half of all pairs of independent numbers are in order, and no two are equal."""
    script = """
torch.manual_seed(0)
data = torch.randn(10_000).cuda()
noise = torch.randn_like(data)
torch.manual_seed(0); again = torch.randn_like(data)
answer(len(data[data > noise]), (data == again).any().item(), torch.equal(noise, again))
"""
    below, equal, repeats = noted(script)
    assert 4_800 < below < 5_200  # four standard deviations
    assert (equal, repeats) == (False, True)


def test_what_nobody_knows_is_an_error_and_never_zero(noted):
    script = """
import re
def error(read):
    try:
        return read()
    except BaseException as error:
        return re.sub(r" at \\S+", "", f"{type(error).__name__}: {error}", count=1)
x = torch.ones(4096, 4096, device="cuda")
known = torch.ones(3, device="cuda")
function = torch.compile(lambda x: x * 2 + torch.rand_like(x))
for _ in range(3):  # from the second call on, PyTorch has a faster launcher, in C++
    compiled = function(known)
answer(
    error(lambda: compiled.sum().item()), error(lambda: bool(compiled.any())),
    error(lambda: (x @ x).sum().item()), known.tolist(),
    error(lambda: torch.nested.nested_tensor([known, known]).to_padded_tensor(0.0).tolist()),
    error(lambda: torch.sparse_coo_tensor([[0, 1]], known[:2], (2,)).cpu()),
    len(noting().reads.unknown))
"""
    triton, branch, large, known, nested, sparse, count = noted(script)
    lost = "UnknownValue: a value was read that is not known: "
    assert triton == branch == f"{lost}a Triton kernel wrote it"
    assert large.startswith(f"{lost}it takes 1.4e+11 floating-point operations, and")
    assert known == [1, 1, 1]
    assert nested == sparse == f"{lost}the values of sparse and nested tensors are not followed"
    assert count == 5


def test_an_operator_of_pytorchs_whose_kernel_is_tritons_is_known(noted):
    script = """
a, b = torch.tensor([[[1.0], [2.0]]], device="cuda"), torch.tensor([[[3.0, 4.0]]], device="cuda")
answer((a @ b).tolist(), a.tolist(), b.half().softmax(-1, dtype=torch.float32).sum().item())
"""
    assert noted(script) == ([[[3, 4], [6, 8]]], [[[1], [2]]], 1)


def test_what_an_operator_writes_inside_one_of_higher_order_is_known(noted):
    """DTensor draws random numbers in such an operator, to initialise a parameter."""
    script = """
from torch._prims.rng_prims import run_with_rng_state
x = torch.ones(3, device="cuda")
run_with_rng_state(torch.cuda.get_rng_state(), torch.ops.aten.add_.Tensor, x, 1)
answer(x.tolist())
"""
    assert noted(script) == ([2, 2, 2],)


def test_the_sizes_of_nested_tensors_are_those_of_their_masks(noted):
    """``TransformerEncoder`` makes one of a batch with padding, where it is evaluated."""
    script = """
x = torch.ones(2, 3, 4)
different = []
for bits in range(64):
    mask = torch.tensor([bool(bits >> position & 1) for position in range(6)]).view(2, 3)
    def sizes(device, made=torch._nested_tensor_from_mask):
        on = x.to(device), mask.to(device)
        aligned = torch._nested_tensor_from_mask_left_aligned(*on)
        nested = made(*on, mask_check=aligned)
        return aligned, nested._nested_tensor_size().tolist()
    if sizes("cpu") != sizes("cuda"):
        different.append(bits)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
encoder = nn.TransformerEncoder(layer, 2).cuda().eval()
padding = torch.tensor([[False, False, True], [False, True, True]], device="cuda")
with torch.inference_mode():
    shape = encoder(torch.ones(2, 3, 8, device="cuda"), src_key_padding_mask=padding).shape
answer(different, list(shape), noting().reads.unknown)
"""
    assert noted(script) == ([], [2, 3, 8], [])


def test_a_logged_number_that_nobody_knows_is_nan_in_a_script_and_a_branch_is_an_error(noted):
    script = """
prepared = noting(); prepared.reads._must_know = False
known = torch.ones(3, device="cuda")
compiled = torch.compile(lambda x: x * 2 + torch.rand_like(x))(known)
try:
    branch = bool(compiled.sum() > 1)
except BaseException as error:
    branch = type(error).__name__
answer(str(compiled.sum().item()), branch)
"""
    assert noted(script) == ("nan", "UnknownValue")


ROWS = [row for row in read("workloads")["peaks"] if row["device"] == "A100-80GB"]


@pytest.mark.parametrize("row", ROWS[::4], ids=lambda row: row["workload"])
def test_noting_changes_no_byte(noted, row):
    peaks = noted(f"import workloads; answer(*workloads.peaks({row['workload']!r}))")
    assert peaks == (row["requested"], row["allocated"], row["reserved"])


def test_a_target_without_elements_in_memory_that_others_share(noted):
    """It is resized into that memory; values read later are known too."""
    script = """
whole = torch.zeros(3, 5, device="cuda")
torch.add(torch.ones(2, 3, device="cuda"), 1, out=whole[:0])
target = torch.ones(2, 3, device="cuda")
torch.add(target, target, out=target)
answer(target.sum().item())
"""
    assert noted(script) == (12.0,)


def test_a_tensor_that_grows_keeps_its_values(noted):
    """By ``resize_`` of the tensor or of its storage; what is new is NaN or the largest integer."""
    script = """
def grown(make, resize):
    x = make(torch.arange(1, 5, device="cuda"))
    y = x[1:3]
    resize(x, y)
    return x.tolist(), y.tolist()
rows = torch.zeros(0, 2, device="cuda")
for i in range(3):
    rows.resize_(i + 1, 2)
    rows[i] = i
storage = lambda size: lambda x, y: x.untyped_storage().resize_(size)
answer(rows.tolist(), grown(torch.Tensor.int, lambda x, y: x.resize_(2, 3)),
       grown(torch.Tensor.int, lambda x, y: y.resize_(5)),
       grown(lambda x: x.half() + 1, storage(400)), grown(torch.Tensor.bool, storage(400)),
       torch.ones(2, device="cuda").resize_as_(rows).isnan().tolist(), noting().reads.unknown)
"""
    most = 2**31 - 1
    assert noted(script) == (
        [[0, 0], [1, 1], [2, 2]],
        [[[1, 2, 3], [4, most, most]], [2, 3]],
        [[1, 2, 3, 4], [2, 3, 4, most, most]],
        *([[2, 3, 4, 5], [3, 4]], [[True] * 4, [True] * 2]),
        *([[False, False], [True, True], [True, True]], []),
    )


def test_a_tensor_that_is_made_of_a_storage_has_its_values(noted):
    """It shares the storage, whose last upload is older than what operators wrote."""
    script = """
import io
saved = io.BytesIO()
torch.save(torch.zeros(2).cuda(), saved)
saved.seek(0)
found = []
for x in (torch.zeros(2).cuda(), torch.load(saved)):
    x.fill_(7)
    y = torch.tensor(x.untyped_storage(), dtype=torch.float32, device="cuda")
    found += x.tolist(), y.tolist()
answer(found, torch.tensor([1.5, 2.5], device="cuda").tolist())
"""
    assert noted(script) == ([[7, 7]] * 4, [1.5, 2.5])
