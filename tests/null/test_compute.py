"""Operators of the null device give there what the CPU gives for them: number, shapes, dtypes."""

SCRIPT = """
import sys
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from pytest_attnmem.nulldevice.cudnn import stand_in
from pytest_attnmem.values.compute import compute

stand_in()
seen, wrong = set(), []
STORES = "aten::set_", "aten::_cudnn_rnn_flatten_weight"  # they give tensors a device's storage


def described(value):
    return [(list(leaf.shape), str(leaf.dtype)) if isinstance(leaf, torch.Tensor) else type(leaf)
            for leaf in tree_flatten(value)[0]]


def zeros(value):
    if not isinstance(value, torch.Tensor) or not value.is_cuda:
        return value
    return torch.zeros_like(value, device="cpu")


class Compare(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = tree_map(zeros, (args, kwargs))
        out = func(*args, **kwargs)
        leaves = tree_flatten((args, kwargs, out))[0]
        if isinstance(out, bool) or func._schema.name in STORES:
            return out
        if any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in leaves):
            seen.add(str(func))
            found = described(compute(func, *given))
            if found != described(out):
                wrong.append([str(func), str(described(out)), str(found)])
        return out


def step(function, *shapes):
    inputs = [torch.zeros(*shape, **on).requires_grad_() for shape in shapes]
    outputs = [leaf for leaf in tree_flatten(function(*inputs))[0] if leaf.requires_grad]
    torch.autograd.backward(outputs, [torch.zeros_like(one) for one in outputs])


def attention(backend, **options):
    def run(query, key):
        with nn.attention.sdpa_kernel(backend):
            return F.scaled_dot_product_attention(query, key, key, **options)
    return run


FLASH, EFFICIENT, CUDNN = (getattr(nn.attention.SDPBackend, name) for name in (
    "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION"))
HEADS = ((2, 4, 40, 64),) * 2
on = {"device": "cuda", "dtype": torch.float16}
indices = torch.zeros(6, dtype=torch.long, device="cuda")
with Compare(), torch.backends.cudnn.flags(enabled=True):
    for layer in (nn.Conv2d(4, 6, 3, **on), nn.ConvTranspose2d(4, 6, 3, 2, groups=2, **on),
                  nn.Conv2d(4, 4, 3, groups=4, dilation=2, **on), nn.BatchNorm2d(4, **on)):
        step(layer, (2, 4, 9, 9))
    step(nn.LSTM(8, 7, 2, dropout=0.5, bidirectional=True, **on), (5, 3, 8))
    step(nn.LSTM(8, 7, proj_size=4, batch_first=True, **on), (5, 3, 8))
    step(nn.GRU(8, 7, **on), (5, 3, 8))
    labels = torch.ones(6, dtype=torch.int32)
    step(lambda x: F.ctc_loss(x.float().log_softmax(-1), labels, [9, 9], [3, 3]), (9, 2, 5))
with Compare(), torch.backends.cudnn.flags(enabled=False):
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.125}):
        step(attention(FLASH, **options), *HEADS)
        step(attention(CUDNN, **options), *HEADS)
    torch.mm(torch.zeros(3, 4, **on), torch.zeros(4, 5, **on), out_dtype=torch.float32)
    mask = torch.zeros(2, 4, 40, 40, **on).requires_grad_()
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.125}, {"attn_mask": mask}):
        step(attention(EFFICIENT, **options), *HEADS)
    for network in (nn.LSTM, nn.GRU):
        step(network(8, 7, 2, **on), (5, 3, 8))
    for layer in (nn.BatchNorm2d(4, **on), nn.BatchNorm2d(4, device="cuda"),
                  nn.BatchNorm2d(4, **on).eval(), nn.GroupNorm(2, 4, **on),
                  nn.LayerNorm(9, **on),
                  nn.RMSNorm(9, **on), nn.LogSigmoid(), nn.Dropout(0.5)):
        step(layer, (2, 4, 9, 9))
    for mode in ("sum", "mean", "max"):
        step(lambda weight: F.embedding_bag(
            indices, weight, indices[:3], mode=mode, include_last_offset=mode != "mean"), (10, 4))
    step(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5, **on)), (3, 4))
    step(lambda x: F.cross_entropy(x, indices), (6, 7))
    for kind in (torch.optim.AdamW, torch.optim.SGD):
        weight = nn.Parameter(torch.zeros(3, 4, **on))
        weight.grad = torch.zeros_like(weight)
        kind([weight], lr=0.1, fused=True).step()
        kind([weight], lr=0.1, foreach=True).step()
    image, filters = torch.zeros(2, 4, 9, 9, **on), torch.zeros(4, 1, 3, 3, **on)
    torch.ops.aten._conv_depthwise2d(image, filters, [3, 3], None, [1, 1], [0, 0], [1, 1])
    torch._fused_dropout(torch.zeros(3, **on), 0.5)
    x, row = torch.zeros(2, 4, 9, **on), torch.zeros(4, device="cuda")
    mean, invstd = torch.batch_norm_stats(x, 1e-5)
    torch.batch_norm_elemt(x, row, row, mean, invstd, 1e-5)
    torch.batch_norm_backward_reduce(x, x, mean, invstd, row, True, True, True)
answer(sorted(seen), wrong)
"""

#: What only CUDA has, or has with other outputs: the test is of nothing without them.
ALONE = {
    "aten._scaled_dot_product_flash_attention_backward.default",
    "aten._scaled_dot_product_efficient_attention_backward.default",
    "aten._scaled_dot_product_cudnn_attention_backward.default",
    "aten.convolution_backward.default",
    "aten._cudnn_rnn_backward.default",
    "aten._cudnn_ctc_loss.default",
    "aten._thnn_fused_lstm_cell_backward_impl.default",
    "aten._thnn_fused_gru_cell_backward.default",
    "aten._conv_depthwise2d.default",
    "aten._fused_rms_norm_backward.default",
    "aten.native_batch_norm_backward.default",
    "aten.native_layer_norm_backward.default",
    "aten.log_sigmoid_backward.default",
    "aten._embedding_bag.default",
    "aten._fused_adamw_.default",
    "aten._fused_dropout.default",
    "aten.batch_norm_backward_reduce.default",
}


def test_the_cpu_gives_as_many_outputs_of_the_same_shapes_and_dtypes(under):
    seen, wrong = under(SCRIPT, device="H100")
    assert wrong == []
    assert set(seen) >= ALONE
    assert len(seen) > 60
