"""Recurrent networks: which are cuDNN's, and the values of PyTorch's own."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BY_CUDNN = (
    "cuDNN's recurrent network takes scratch that is known on a GPU alone; PyTorch's own can be had"
    " with torch.backends.cudnn.flags(enabled=False)"
)


@pytest.fixture
def _without_cudnn():
    with torch.backends.cudnn.flags(enabled=False):
        yield


@pytest.mark.parametrize(
    "program",
    [
        lambda: nn.GRU(4, 4).cuda(),  # its weights move to one buffer of cuDNN
        lambda: nn.RNN(4, 4).cuda()(torch.ones(3, 1, 4, device="cuda")),
    ],
)
def test_a_network_of_cudnn_is_not_measured(run, program):
    assert run(program).unmeasured == BY_CUDNN


@pytest.mark.usefixtures("_without_cudnn")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_have_the_values_of_padded_ones(run, kind):
    def program():
        torch.manual_seed(0)
        model = kind(3, 4, 2, bidirectional=True).cuda()
        x = torch.randn(5, 3, 3, device="cuda")
        lengths = [2, 5, 3]
        out, sizes = pad_packed_sequence(
            model(pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
        )
        assert sizes.tolist() == lengths
        assert sizes.device.type == "cpu"
        for place, length in enumerate(lengths):
            alone, _ = model(x[:length, place : place + 1])
            torch.testing.assert_close(out[:length, place], alone[:, 0])
            assert not out[length:, place].any()

    assert run(program).unmeasured is None
