"""Fused cells and cuDNN's networks against the modules of PyTorch and autograd."""

import pytest
import torch

B, H = 3, 4


def close(found, expected):
    torch.testing.assert_close(list(found), list(expected))


def leaf(tensor):
    return tensor.detach().requires_grad_()


def detached(tensors):
    return [None if tensor is None else tensor.detach() for tensor in tensors]


@pytest.mark.parametrize("biased", [False, True])
def test_lstm_cell(run, values, biased):
    cell = torch.nn.LSTMCell(5, H, bias=biased, dtype=torch.float64)
    x, hx, cx = values(B, 5), values(B, H), leaf(values(B, H))
    gates = [leaf(x @ cell.weight_ih.T), leaf(hx @ cell.weight_hh.T)]
    biases = [leaf(cell.bias_ih), leaf(cell.bias_hh)] if biased else []
    expected = cell(x, (hx, cx.detach()))
    hy, cy, workspace = run("_thnn_fused_lstm_cell", *detached([*gates, cx, *biases]))
    close((hy, cy), expected)
    assert workspace.shape == (B, 4 * H)
    total = gates[0] + gates[1] + sum(biases)
    enter, forget, new, leave = total.chunk(4, 1)
    cell_state = forget.sigmoid() * cx + enter.sigmoid() * new.tanh()
    outputs = (leave.sigmoid() * cell_state.tanh(), cell_state)
    grads = values(B, H), values(B, H)
    found = run(
        "_thnn_fused_lstm_cell_backward_impl", *grads, *detached((cx, cy)), workspace, biased
    )
    wanted = torch.autograd.grad(outputs, [gates[0], cx, *biases[:1]], grads)
    assert (found[2] is None) is not biased
    close(found[: 2 + biased], wanted)
    none = run("_thnn_fused_lstm_cell_backward_impl", None, None, cx.detach(), cy, workspace, True)
    assert none == (None, None, None)


@pytest.mark.parametrize("biased", [False, True])
def test_gru_cell(run, values, biased):
    cell = torch.nn.GRUCell(5, H, bias=biased, dtype=torch.float64)
    x, hx = values(B, 5), leaf(values(B, H))
    gates = [leaf(x @ cell.weight_ih.T), leaf(hx.detach() @ cell.weight_hh.T)]
    biases = [leaf(cell.bias_ih), leaf(cell.bias_hh)] if biased else [None, None]
    hy, workspace = run("_thnn_fused_gru_cell", *detached([*gates, hx, *biases]))
    close([hy], [cell(x, hx.detach())])
    assert workspace.shape == (B, 5 * H)
    of_input, of_hidden = ((gate if bias is None else gate + bias).chunk(3, 1)
                           for gate, bias in zip(gates, biases, strict=True))  # fmt: skip
    reset, enter = (a.add(b).sigmoid() for a, b in zip(of_input[:2], of_hidden[:2], strict=True))
    new = (of_input[2] + reset * of_hidden[2]).tanh()
    grad = values(B, H)
    found = run("_thnn_fused_gru_cell_backward", grad, workspace, biased)
    wanted = [*gates, hx, *(bias for bias in biases if bias is not None)]
    close([one for one in found if one is not None],
          torch.autograd.grad((1 - enter) * new + enter * hx, wanted, grad))  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "network", "options"),
    [
        (0, torch.nn.RNN, {"nonlinearity": "relu", "bias": False}),
        (1, torch.nn.RNN, {"batch_first": True}),
        (2, torch.nn.LSTM, {"bidirectional": True}),
        (2, torch.nn.LSTM, {"proj_size": 2}),
        (3, torch.nn.GRU, {"num_layers": 1}),
    ],
)
def test_cudnn_network(run, values, mode, network, options):
    options = {"num_layers": 2, **options}
    module = network(5, H, dtype=torch.float64, **options)
    ways = 1 + module.bidirectional
    x = leaf(values(6, B, 5))
    hx = leaf(values(options["num_layers"] * ways, B, module.proj_size or H))
    cx = leaf(values(options["num_layers"] * ways, B, H)) if mode == 2 else None
    if module.batch_first:
        x = leaf(x.detach().transpose(0, 1).contiguous())
    outputs, states = module(x, (hx, cx) if mode == 2 else hx)
    outputs = [outputs, *(states if mode == 2 else [states])]
    weights = list(module.parameters())
    stride = len(weights) // (options["num_layers"] * ways)
    rest = (mode, H, module.proj_size, options["num_layers"], module.batch_first, 0.0, True,
            module.bidirectional, [], None)  # fmt: skip
    given = detached((x, hx, cx))
    plain = detached(weights)
    out, hy, cy, reserve, buffer = run(
        "_cudnn_rnn", given[0], plain, stride, None, given[1], given[2], *rest
    )
    close([out, hy, cy][: len(outputs)], outputs)
    assert mode == 2 or cy.shape == (0,)
    layers = options["num_layers"] * ways  # cuDNN's networks always have biases
    missing = 0 if stride > 3 else layers * 2 * len(weights[0])
    assert buffer.shape == (sum(weight.numel() for weight in weights) + missing,)
    grads = [torch.ones_like(one) * (i + 1) for i, one in enumerate(outputs)]
    *of_inputs, of_weights = run(
        "_cudnn_rnn_backward", given[0], plain, stride, buffer, given[1], given[2], out,
        *[*grads, None][:3], *rest, reserve, [True] * 4,
    )  # fmt: skip
    wanted = [x, hx, *([cx] if mode == 2 else []), *weights]
    found = [one for one in of_inputs if one is not None] + of_weights
    close(found, torch.autograd.grad(outputs, wanted, grads))


def test_a_backward_drops_what_its_forward_dropped(run, values):
    module = torch.nn.LSTM(5, H, num_layers=2, dtype=torch.float64)
    weights, x = detached(module.parameters()), values(6, B, 5)
    states = torch.zeros(2, B, H, dtype=torch.float64)
    rest = (2, H, 0, 2, False, 0.5, True, False, [], None)

    def forward(given):
        torch.manual_seed(5)
        return run("_cudnn_rnn", given, weights, 4, None, states, states, *rest)

    out, _, _, reserve, buffer = forward(x)
    grad, step, way = values(6, B, H), 1e-6, values(6, B, 5)
    of_input = run(
        "_cudnn_rnn_backward", x, weights, 4, buffer, states, states, out, grad, None, None, *rest,
        reserve, [True] * 4,
    )[0]  # fmt: skip
    moved = (forward(x + step * way)[0] - forward(x - step * way)[0]) / (2 * step)
    torch.testing.assert_close((grad * moved).sum(), (of_input * way).sum(), rtol=1e-6, atol=0)
    assert not torch.equal(run("_cudnn_rnn", x, weights, 4, None, states, states, *rest)[0], out)
