"""The values of the fast path of encoders; ``test_whole_programs.py`` has its bytes."""

import copy

import pytest
import torch
from torch import nn

from pytest_attnmem import measure

MASKS = {
    "none": {},
    "padding": {"src_key_padding_mask": torch.tensor([[False] * 4 + [True] * 2, [False] * 6])},
    "added": {"src_mask": nn.Transformer.generate_square_subsequent_mask(6)},
    "both": {
        "src_key_padding_mask": torch.tensor([[False] * 4 + [True] * 2, [False] * 6]),
        "src_mask": torch.ones(6, 6, dtype=torch.bool).triu(1),
    },
}


@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_has_the_values_of_the_cpu(masks, norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(2, 6, 32)
    found = []

    def program():
        moved = {name: mask.to("cuda") for name, mask in masks.items()}
        found.append(copy.deepcopy(layer).to("cuda")(x.to("cuda"), **moved).tolist())

    with torch.no_grad():
        wanted = layer(x, **masks)
        assert measure(program, backend="simulated:A100-80GB").unmeasured is None
    torch.testing.assert_close(torch.tensor(found[0]), wanted)
