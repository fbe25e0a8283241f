"""Batch, synchronised, layer and RMS normalisation against their definitions and autograd."""

import pytest
import torch


def close(found, expected):
    torch.testing.assert_close(list(found), list(expected))


def spread(statistic):
    return statistic[:, None, None]


def by_definition(x, weight, bias, mean, var, eps=1e-5):
    return (x - spread(mean)) / (spread(var) + eps).sqrt() * spread(weight) + spread(bias)


def leaves(values):
    return [values(4, 3, 5, 2).requires_grad_(), values(3).requires_grad_(),
            values(3).requires_grad_()]  # fmt: skip


def moments(x):
    flat = x.transpose(0, 1).reshape(3, -1)
    return flat.mean(1), ((flat - flat.mean(1, keepdim=True)) ** 2).mean(1)


@pytest.mark.parametrize("kind", ["native", "legit", "update", "cudnn"])
def test_a_training_step_of_batch_norm(run, values, kind):
    x, weight, bias = tensors = leaves(values)
    running = [values(3), values(3).abs()]
    mean, var = moments(x)
    expected = by_definition(x, weight, bias, mean, var)
    left = [0.9 * running[0] + 0.1 * mean.detach(), 0.9 * running[1] + 0.1 * var.detach() * 40 / 39]
    given = [tensor.detach() for tensor in tensors]
    name, arguments = {
        "native": ("native_batch_norm", (True, 0.1, 1e-5)),
        "legit": ("_native_batch_norm_legit", (True, 0.1, 1e-5)),
        "update": ("_batch_norm_with_update", (0.1, 1e-5)),
        "cudnn": ("cudnn_batch_norm", (True, 0.1, 1e-5)),
    }[kind]
    out, saved_mean, invstd, *reserve = run(name, *given, *running, *arguments)
    close((out, saved_mean, invstd), (expected, mean, (var + 1e-5).rsqrt()))
    close(running, left)
    assert [one.dtype for one in reserve] == [torch.uint8] * (kind in ("update", "cudnn"))
    grad, saved = values(4, 3, 5, 2), (saved_mean, invstd)
    x_grad_weight = (grad, given[0], given[1])
    found = {
        "native": lambda: run(
            "native_batch_norm_backward", *x_grad_weight, *running, *saved, True, 1e-5, [True] * 3
        ),
        "update": lambda: run(
            "batch_norm_backward", *x_grad_weight, *running, *saved, True, 1e-5, [True] * 3,
            *reserve,
        ),
        "cudnn": lambda: run(
            "cudnn_batch_norm_backward", given[0], grad, given[1], *running, *saved, 1e-5, *reserve
        ),
    }[kind if kind != "legit" else "native"]()  # fmt: skip
    close(found, torch.autograd.grad(expected, tensors, grad))


def test_an_evaluation_of_batch_norm(run, values):
    x, weight, bias = (tensor.detach() for tensor in leaves(values))
    running = values(3), values(3).abs()
    expected = by_definition(x, weight, bias, *running)
    out, mean, invstd = run("native_batch_norm", x, weight, bias, *running, False, 0.1, 1e-5)
    close((out, mean, invstd), (expected, running[0], (running[1] + 1e-5).rsqrt()))
    out, *saved = run("cudnn_batch_norm", x, weight, bias, *running, False, 0.1, 1e-5)
    close([out], [expected])
    assert [tuple(one.shape) for one in saved] == [(0,)] * 3


@pytest.mark.parametrize("weights", [torch.float16, torch.float32])
def test_half_precision_keeps_statistics_of_float32(run, values, weights):
    x, weight, bias = leaves(values)
    x, weight, bias = x.detach().half(), weight.detach().to(weights), bias.detach().to(weights)
    running = torch.zeros(3, dtype=weights), torch.ones(3, dtype=weights)
    out, *saved = run("native_batch_norm", x, weight, bias, *running, True, 0.1, 1e-5)
    assert [one.dtype for one in (out, *saved)] == [torch.float16, torch.float32, torch.float32]
    close([running[0]], [(0.1 * saved[0]).to(weights)])
    found = run("native_batch_norm_backward", x, x, weight, *running, *saved, True, 1e-5,
                [True, True, False])  # fmt: skip
    assert [one if one is None else one.dtype for one in found] == [torch.float16, weights, None]
    row = torch.ones(2, dtype=torch.float16)
    out, *saved = run("native_layer_norm", x, [2], row, row, 1e-5)
    assert [one.dtype for one in (out, *saved)] == [torch.float16, torch.float32, torch.float32]
    found = run("native_layer_norm_backward", x, x, [2], *saved, row, row, [True, False, True])
    assert [one if one is None else one.dtype for one in found] == [x.dtype, None, x.dtype]


def test_layer_norm(run, values):
    x, weight, bias = values(3, 4, 5).requires_grad_(), values(5).requires_grad_(), values(5)
    bias.requires_grad_()
    mean, var = x.mean(-1, keepdim=True), x.var(-1, correction=0, keepdim=True)
    expected, grad = (x - mean) / (var + 1e-5).sqrt() * weight + bias, values(3, 4, 5)
    given = [tensor.detach() for tensor in (weight, bias)]
    out, *saved = run("native_layer_norm", x.detach(), [5], *given, 1e-5)
    close((out, *saved), (expected, mean, (var + 1e-5).rsqrt()))
    found = run("native_layer_norm_backward", grad, x.detach(), [5], *saved, *given, [True] * 3)
    close(found, torch.autograd.grad(expected, (x, weight, bias), grad))


@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm(run, values, weighted):
    x, weight = values(3, 4, 5).requires_grad_(), values(4, 5).requires_grad_()
    expected = x / (x.square().mean((-2, -1), keepdim=True) + 1e-3).sqrt()
    expected, grad = expected * weight if weighted else expected, values(3, 4, 5)
    given = weight.detach() if weighted else None
    out, rstd = run("_fused_rms_norm", x.detach(), [4, 5], given, 1e-3)
    close([out], [expected])
    assert rstd.shape == (3, 1, 1)
    found = run("_fused_rms_norm_backward", grad, x.detach(), [4, 5], rstd, given,
                [True, weighted])  # fmt: skip
    assert (found[1] is None) is not weighted
    close(found[: 1 + weighted], torch.autograd.grad(expected, (x, weight)[: 1 + weighted], grad))


def test_synchronised_batch_norm_is_batch_norm_of_all_processes(run, values):
    x, weight, bias = tensors = leaves(values)
    mean, var = moments(x)
    expected, grad = by_definition(x, weight, bias, mean, var), values(4, 3, 5, 2)
    parts, running = x.detach().split([1, 3]), [values(3), values(3).abs()]
    left = [0.9 * running[0] + 0.1 * mean.detach(), 0.9 * running[1] + 0.1 * var.detach() * 40 / 39]
    each = [run("batch_norm_stats", part, 1e-5) for part in parts]
    counts = torch.tensor([10.0, 30.0], dtype=torch.float64)
    statistics = run(
        "batch_norm_gather_stats_with_counts", x.detach(), *map(torch.stack, zip(*each,
        strict=True)), *running, 0.1, 1e-5, counts,
    )  # fmt: skip
    close((*statistics, *running), (mean, (var + 1e-5).rsqrt(), *left))
    given = weight.detach()
    outs = [run("batch_norm_elemt", part, given, bias.detach(), *statistics, 1e-5)
            for part in parts]  # fmt: skip
    close([torch.cat(outs)], [expected])
    pairs = list(zip(grad.split([1, 3]), parts, strict=True))
    sums = [run("batch_norm_backward_reduce", *pair, *statistics, given, True, True, True)
            for pair in pairs]  # fmt: skip
    of_dy, of_both, of_weight, of_bias = (sum(one) for one in zip(*sums, strict=True))
    found = [run("batch_norm_backward_elemt", *pair, *statistics, given, of_dy, of_both,
                 torch.tensor([10, 30], dtype=torch.int32)) for pair in pairs]  # fmt: skip
    close((torch.cat(found), of_weight, of_bias), torch.autograd.grad(expected, tensors, grad))


def test_equal_counts_may_be_one_number(run, values):
    x = values(4, 3, 5, 2)
    each = [run("batch_norm_stats", part, 1e-5) for part in x.split(2)]
    stacked = list(map(torch.stack, zip(*each, strict=True)))
    found = run("batch_norm_gather_stats", x, *stacked, None, None, 0.1, 1e-5, 20)
    close(found, run("batch_norm_stats", x, 1e-5))
