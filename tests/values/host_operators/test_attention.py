"""Flash, efficient and cuDNN's attention against a softmax written out, and its autograd."""

from types import SimpleNamespace

import pytest
import torch
from torch.autograd import grad as grad_of

from pytest_attnmem.errors import CannotCompute
from pytest_attnmem.values.host_operators import cudnn_attention

B, H, D = 2, 4, 8


def plain(query, key, value, scale, allowed=None, bias=None, factor=None):
    """Returns output and logsumexp of [B, H, N, d], by loops over heads."""
    outs, sums = [], []
    for head in range(query.shape[1]):
        of_keys = head * key.shape[1] // query.shape[1]
        scores = torch.einsum("bnd,bmd->bnm", query[:, head], key[:, of_keys]) * scale
        if bias is not None:
            scores = scores + bias[:, head]
        if allowed is not None:
            scores = torch.where(allowed, scores, torch.tensor(float("-inf"), dtype=scores.dtype))
        weights = torch.softmax(scores, -1)
        if factor is not None:
            weights = weights * factor[:, head]
        outs.append(torch.einsum("bnm,bmd->bnd", weights, value[:, of_keys]))
        sums.append(torch.logsumexp(scores, -1))
    return torch.stack(outs, 1), torch.stack(sums, 1)


def causal(n, m, last=False):
    """Returns which keys a query sees: up to its own, from the first or from the last ones."""
    return torch.tensor([[j <= i + (m - n if last else 0) for j in range(m)] for i in range(n)])


def inputs(values, n, m, kv_heads=H):
    shapes = ((B, H, n, D), (B, kv_heads, m, D), (B, kv_heads, m, D))
    return [values(*shape).requires_grad_() for shape in shapes]


def detached(tensors):
    return [tensor.detach() for tensor in tensors]


def rows_first(tensors):
    return [tensor.detach().transpose(1, 2) for tensor in tensors]


def close(found, expected):
    torch.testing.assert_close(list(found), list(expected), check_dtype=False)


@pytest.mark.parametrize(("n", "m", "kv_heads"), [(5, 5, H), (5, 9, 2), (1, 7, 1)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_flash(run, values, n, m, kv_heads, is_causal):
    tensors, grad = inputs(values, n, m, kv_heads), values(B, H, n, D)
    allowed = causal(n, m, last=True) if is_causal else None
    expected, sums = plain(*tensors, 0.3, allowed)
    name = "_scaled_dot_product_flash_attention"
    out, lse, ends_q, ends_k, max_q, max_k, state, unused, mask = run(
        name, *detached(tensors), 0.0, is_causal, scale=0.3
    )
    close((out, lse.double()), (expected.detach(), sums.detach().float().double()))
    assert (ends_q, ends_k, max_q, max_k, mask.shape) == (None, None, n, m, (0,))
    assert (state.dtype, state.shape, unused.shape) == (torch.uint64, (2,), ())
    found = run(
        f"{name}_backward", grad, *detached(tensors), out, sums.detach(), None, None, n, m, 0.0,
        is_causal, state, unused, scale=0.3,
    )  # fmt: skip
    close(found, grad_of(expected, tensors, grad))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_efficient(run, values, biased, is_causal):
    n, m = 5, 7
    tensors, grad = inputs(values, n, m), values(B, H, n, D)
    bias = values(B, H, n, m).requires_grad_() if biased else None
    expected, sums = plain(*tensors, D**-0.5, causal(n, m) if is_causal else None, bias)
    given = None if bias is None else bias.detach()
    name = "_scaled_dot_product_efficient_attention"
    out, lse, seed, offset = run(name, *detached(tensors), given, True, 0.0, is_causal)
    close((out, lse[:, :, :n]), (expected.detach(), sums.detach().float()))
    assert (lse.shape, lse.dtype, lse[:, :, n:].min()) == ((B, H, 32), torch.float32, float("inf"))
    precise = torch.full((B, H, 32), float("inf"), dtype=torch.float64)
    precise[:, :, :n] = sums.detach()
    *found, of_bias = run(
        f"{name}_backward", grad, *detached(tensors), given, out, precise, seed, offset, 0.0,
        [True, True, True, biased], is_causal,
    )  # fmt: skip
    leaves = [*tensors, bias] if biased else tensors
    close([*found, of_bias] if biased else found, grad_of(expected, leaves, grad))
    assert (of_bias is None) is not biased


def test_efficient_without_logsumexp(run, values):
    tensors = detached(inputs(values, 5, 5))
    lse = run("_scaled_dot_product_efficient_attention", *tensors, None, False)[1]
    assert lse.shape == (B, H, 0)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "bias"])
def test_cudnn(run, values, mask):
    n, m = 5, 7
    tensors, grad = inputs(values, n, m), values(B, H, n, D)
    seen = values(n, m) > -0.5
    seen[:, 0] = True
    bias = values(B, H, n, m) if mask == "bias" else None
    allowed = {"causal": causal(n, m), "bool": seen}.get(mask)
    given = seen if mask == "bool" else bias
    expected, sums = plain(*tensors, D**-0.5, allowed, bias)
    name = "_scaled_dot_product_cudnn_attention"
    out, lse, *ends, max_q, max_k, seed, offset, debug = run(
        name, *detached(tensors), given, True, 0.0, mask == "causal"
    )
    close((out, lse.squeeze(-1)), (expected.detach(), sums.detach()))
    assert (lse.shape, ends, max_q, max_k, debug) == ((B, H, n, 1), [None, None], n, m, None)
    found = run(
        f"{name}_backward", grad, *detached(tensors), out, lse, seed, offset, given, *ends, n, m,
        0.0, mask == "causal",
    )  # fmt: skip
    close(found, grad_of(expected, tensors, grad))


@pytest.mark.parametrize("kind", ["flash", "efficient", "cudnn"])
def test_a_backward_drops_what_its_forward_dropped(run, values, kind):
    n = m = 6
    tensors, grad = inputs(values, n, m), values(B, H, n, m)
    tensors[2] = torch.eye(m, dtype=torch.float64).expand(B, H, m, m).clone().requires_grad_()
    name, more = f"_scaled_dot_product_{kind}_attention", () if kind == "flash" else (None, True)
    torch.manual_seed(3)
    found = run(name, *detached(tensors), *more, 0.4)
    torch.manual_seed(3)
    assert torch.equal(run(name, *detached(tensors), *more, 0.4)[0], found[0])
    assert not torch.equal(run(name, *detached(tensors), *more, 0.4)[0], found[0])
    weights, sums = plain(*tensors, D**-0.5)
    factor = (found[0] / weights).detach()
    kept = factor > 0
    assert 0.4 < kept.double().mean() < 0.8
    close([factor[kept]], [torch.full_like(factor[kept], 1 / 0.6)])
    expected, _ = plain(*tensors, D**-0.5, factor=factor)
    sums, out = sums.detach(), found[0]
    ends = (None, None, n, m)
    backward = {
        "flash": lambda: (out, sums, *ends, 0.4, False, found[6], found[7]),
        "efficient": lambda: (None, out, sums, *found[2:4], 0.4, [True, True, True, False]),
        "cudnn": lambda: (out, sums[..., None], found[6], found[7], None, *ends, 0.4, False),
    }[kind]()
    grads = run(f"{name}_backward", grad, *detached(tensors), *backward)[:3]
    close(grads, grad_of(expected, tensors, grad))


ENDS_Q, ENDS_K = (0, 3, 8), (0, 5, 10)


def packed_reference(tensors, allowed):
    """Returns output and logsumexp of two sequences, each by itself, [T, H, d] and [H, T]."""
    outs, sums = [], []
    for i in range(2):
        rows, columns = slice(*ENDS_Q[i : i + 2]), slice(*ENDS_K[i : i + 2])
        parts = [
            tensor[span].transpose(0, 1)[None]
            for tensor, span in zip(tensors, (rows, columns, columns), strict=True)
        ]
        out, lse = plain(*parts, D**-0.5, allowed(parts[0].shape[2], parts[1].shape[2]))
        outs.append(out[0].transpose(0, 1))
        sums.append(lse[0])
    return torch.cat(outs), sums


def packed(values, kv_heads=H):
    shapes = ((8, H, D), (10, kv_heads, D), (10, kv_heads, D))
    tensors = [values(*shape).requires_grad_() for shape in shapes]
    ends = [torch.tensor(end, dtype=torch.int32) for end in (ENDS_Q, ENDS_K)]
    return tensors, ends, values(8, H, D)


@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_sequences_of_flash(run, values, is_causal):
    tensors, ends, grad = packed(values, kv_heads=2)
    expected, sums = packed_reference(
        tensors, lambda n, m: causal(n, m, last=True) if is_causal else None
    )
    arguments = (*ends, 5, 5, 0.0, is_causal)
    out, lse, state, unused, _ = run(
        "_flash_attention_forward", *detached(tensors), *arguments, False
    )
    close((out, lse), (expected.detach(), torch.cat(sums, 1).detach().float()))
    found = run(
        "_flash_attention_backward", grad, *detached(tensors), out, torch.cat(sums, 1).detach(),
        *arguments, state, unused,
    )  # fmt: skip
    close(found, grad_of(expected, tensors, grad))


@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_sequences_of_cudnn(run, values, is_causal):
    tensors, ends, grad = packed(values, kv_heads=2)
    expected, sums = packed_reference(tensors, causal if is_causal else lambda n, m: None)
    given = (*detached(tensors), None, *ends, 5, 5, True, 0.0, is_causal)
    out, lse, *found_ends, max_q, max_k, seed, offset, debug = run(
        "_cudnn_attention_forward", *given
    )
    lses = torch.cat(sums, 1).detach()
    by_row = torch.__version__ < "2.14"  # [T, H, 1]; since then [H, T]
    close((out, lse), (expected.detach(), (lses.T[..., None] if by_row else lses).float()))
    assert [end.tolist() for end in found_ends] == [[*ENDS_Q], [*ENDS_K]]
    assert (max_q, max_k, debug) == (5, 5, None)
    found = run(
        "_cudnn_attention_backward", grad, *detached(tensors), out,
        lses.T[..., None] if by_row else lses, seed, offset, None, *ends, 5, 5, 0.0, is_causal,
    )  # fmt: skip
    close(found, grad_of(expected, tensors, grad))


def test_a_cache_of_keys_of_cudnn_is_causal_at_its_end(values):
    """The operator with ``out`` is of PyTorch 2.15, so it is called by its function here."""
    tensors, ends, _ = packed(values)
    query, key, value = detached(tensors)
    call = SimpleNamespace(
        out=torch.empty(8, H, D, dtype=torch.float64), query=query, key=key, value=value,
        cum_seq_q=ends[0], cum_seq_k=ends[1], max_q=5, max_k=5, is_causal=True, scale=None,
        seqused_k=torch.tensor([4, 5]), block_table=None,
    )  # fmt: skip
    lse = cudnn_attention.forward_into(call)
    for rows, keys in ((slice(0, 3), slice(0, 4)), (slice(3, 8), slice(5, 10))):
        one = [t.transpose(0, 1)[None] for t in (query[rows], key[keys], value[keys])]
        allowed = causal(one[0].shape[2], one[1].shape[2], last=True)
        expected, sums = plain(*one, D**-0.5, allowed)
        close((call.out[rows].transpose(0, 1)[None], lse[:, rows][None]), (expected, sums.float()))
    call.block_table = torch.zeros(2, 1)
    with pytest.raises(CannotCompute) as error:
        cudnn_attention.forward(call)
    assert str(error.value) == "a cache of pages (block_table) has no equivalent"


def test_packed_sequences_with_a_mask_are_unknown(run, values):
    tensors, ends, _ = packed(values)
    with pytest.raises(CannotCompute) as error:
        run("_cudnn_attention_forward", *detached(tensors), values(8, 10), *ends, 5, 5, True)
    assert "a mask of packed sequences (attn_bias) has no equivalent" in str(error.value)


@pytest.mark.parametrize(("mask_type", "last"), [(0, None), (1, False), (2, True)])
def test_packed_sequences_of_efficient(run, values, mask_type, last):
    tensors, ends, grad = packed(values)
    expected, sums = packed_reference(
        tensors, lambda n, m: None if last is None else causal(n, m, last)
    )
    given = [tensor[None] for tensor in detached(tensors)]
    out, lse, seed, offset, max_q, max_k = run(
        "_efficient_attention_forward", *given, None, *ends, 5, 5, 0.0, mask_type, True
    )
    assert (out.shape, lse.shape, max_q, max_k) == ((1, 8, H, D), (2, H, 32), 5, 5)
    close([out[0]], [expected.detach()])
    precise = torch.zeros(2, H, 32, dtype=torch.float64)
    for i, one in enumerate(sums):
        close([lse[i, :, : one.shape[1]]], [one.detach().float()])
        precise[i, :, : one.shape[1]] = one.detach()
    *found, of_bias = run(
        "_efficient_attention_backward", grad[None], *given, None, out, *ends, 5, 5, precise, 0.0,
        seed, offset, mask_type, False,
    )  # fmt: skip
    close([one[0] for one in found], grad_of(expected, tensors, grad))
    assert of_bias is None


def test_a_window_and_slopes_of_flash(run, values):
    tensors = inputs(values, 4, 6)
    distance = torch.tensor([[j - i - 2 for j in range(6)] for i in range(4)])
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    bias = (-slopes[:, None, None] * distance.abs()).double()[None]
    for options, hidden in (
        (
            {"window_size_left": 3, "window_size_right": 1},
            {"allowed": (distance >= -3) & (distance <= 1)},
        ),
        ({"alibi_slopes": slopes}, {"bias": bias}),
    ):
        expected, _ = plain(*tensors, D**-0.5, **hidden)
        given = (*rows_first(tensors), None, None, 4, 6, 0.0, False, False)
        out = run("_flash_attention_forward", *given, **options)[0]
        close([out], [expected.detach().transpose(1, 2)])


def test_a_query_without_keys_gives_zero_and_no_gradient(run, values):
    tensors = detached(inputs(values, 5, 3))  # the first two queries stand before the first key
    out, lse, *_, state, unused, _ = run("_scaled_dot_product_flash_attention", *tensors, 0.0, True)
    assert out[:, :, :2].abs().max() == 0
    assert lse[:, :, :2].min() == float("inf")
    grad = run(
        "_scaled_dot_product_flash_attention_backward", values(B, H, 5, D), *tensors, out, lse,
        None, None, 5, 3, 0.0, True, state, unused,
    )[0]  # fmt: skip
    assert grad[:, :, :2].abs().max() == 0
    assert grad.isfinite().all()


def test_half_precision_keeps_its_dtypes(run, values):
    tensors = [tensor.half() for tensor in detached(inputs(values, 5, 5))]
    out, lse, *_ = run("_scaled_dot_product_flash_attention", *tensors)
    assert (out.dtype, lse.dtype) == (torch.float16, torch.float32)
