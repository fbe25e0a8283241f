"""Retention over 256 tokens, in its three forms, forward and backward."""

import torch


def _net():
    from yet_another_retnet.retnet import RetNet

    return RetNet(num_tokens=256, d_model=64, nhead=4, num_layers=2).to("cuda")


def _tokens():
    return torch.randint(0, 256, (2, 256), device="cuda")


def parallel():
    _net().forward_parallel(_tokens()).sum().backward()


def chunkwise():
    net, tokens, states = _net(), _tokens(), []
    for start in range(0, 256, 64):
        out, states = net.forward_chunkwise(tokens[:, start : start + 64], start, states)
    out.sum().backward()


def recurrent():
    net, tokens, states = _net().eval(), _tokens(), []
    with torch.no_grad():
        for place in range(16):
            _, states = net.forward_recurrent(tokens[:, place], place, states)
