"""Values of compiled code on the null device, and the constants that Inductor folds there."""

import pytest

SAME = """
def same(found, wanted):
    return [torch.allclose(a.detach().cpu(), b.detach(), atol=1e-4, rtol=1e-4)
            for a, b in zip(found, wanted, strict=True)]
"""


@pytest.fixture
def compiled(noted, tmp_path_factory):
    """Returns a function that runs a script whose operators are noted, with one cache."""
    pytest.importorskip("triton")
    folder = str(tmp_path_factory.getbasetemp() / "inductor")
    settings = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return lambda script: noted(SAME + script, **settings)


def test_what_compiled_code_writes_is_read(compiled):
    """Forward, backward, steps in place between calls, inputs that are written and returned."""
    script = """
def block(x, w, seen):
    seen.add_(x.detach().sum(0))
    return F.gelu(x @ w).softmax(-1), x.view(-1)
def trained(device, compiled):
    torch.manual_seed(0)
    made = torch.randn(8, 16), torch.randn(16, 16), torch.zeros(16)
    x, w, seen = (tensor.to(device) for tensor in made)
    w.requires_grad_()
    run = torch.compile(block) if compiled else block
    for _ in range(3):
        y, flat = run(x, w, seen)
        (y * y).sum().backward()
        with torch.no_grad():
            w -= w.grad
    return y, flat, w, w.grad, seen
answer(same(trained("cuda", True), trained("cpu", False)), noting().reads.unknown)
"""
    assert compiled(script) == ([True] * 5, [])


def test_compiled_flex_attention_is_that_of_its_blocks(compiled):
    """A mask that has a function, and one whose blocks are listed by hand and that has none."""
    script = """
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
attention = torch.compile(flex_attention)
def on(*data):
    return torch.tensor(data, dtype=torch.int32, device="cuda")
torch.manual_seed(0)
q, k, v = (torch.randn(1, heads, 256, 16, requires_grad=True) for heads in (4, 2, 2))
there = [one.detach().cuda().requires_grad_() for one in (q, k, v)]
mask = torch.compile(create_block_mask)(lambda b, h, i, j: i >= j, 1, None, 256, 256, "cuda")
out = attention(*there, block_mask=mask, enable_gqa=True)
out.square().sum().backward()
whole = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
whole.square().sum().backward()
listed = BlockMask.from_kv_blocks(on([[1, 1]]), on([[[1, 0], [0, 1]]]), BLOCK_SIZE=128)
crossed = attention(there[0], there[0], there[0], block_mask=listed)
first, second = q.split(128, dim=-2)
wanted = [F.scaled_dot_product_attention(first, second, second),
          F.scaled_dot_product_attention(second, first, first)]
answer(same([out, *(one.grad for one in there)], [whole, q.grad, k.grad, v.grad]),
       same([crossed], [torch.cat(wanted, -2)]),
       mask.q_num_blocks.tolist(), mask.q_indices.tolist(), noting().reads.unknown)
"""
    equal, crossed, number, indices, unknown = compiled(script)
    assert (equal, crossed, unknown) == ([True] * 4, [True], [])
    assert (number, indices) == ([[[1, 1]]], [[[[0, 1], [1, 0]]]])  # those in part alone


def test_inductor_folds_constants_to_their_values(compiled):
    """A bias of ones that were read as zeros was left out, with the memory that it takes."""
    script = """
from torch.nn.attention import SDPBackend, sdpa_kernel
def biased(q):
    bias = torch.ones(256, 256, device="cuda") * 3
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
q, compiled = torch.ones(1, 2, 256, 64, device="cuda"), torch.compile(biased)
compiled(q)
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
compiled(q)
answer(torch.cuda.max_memory_allocated() - before >= 256 * 256 * 4 + 2 * 256 * 64 * 4,
       counts.device_reads())
"""
    assert compiled(script) == (True, 0)


def test_a_module_is_copied_to_fake_tensors(compiled):
    """As PyTorch 2.4 copies each module that it compiles; up to 2.8 no fake mode is active then."""
    script = """
import copy
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensor, FakeTensorMode
with FakeCopyMode(FakeTensorMode()):
    copied = copy.deepcopy(torch.nn.Embedding(10, 8, device="cuda"))
answer(isinstance(copied.weight, FakeTensor), noting().reads.unknown)
"""
    assert compiled(script) == (True, [])
