"""The seeds that an operator returned, among the tensors of the host."""

import torch

from pytest_attnmem.values.tape import Seeds


def test_a_complex_number_at_the_address_of_a_seed_is_no_seed():
    seeds, memory = Seeds(), torch.zeros(1, dtype=torch.complex64)
    slot = seeds.output(memory.view(torch.int64))
    assert slot is not None
    assert seeds.find(memory.view(torch.int64)) is slot
    memory += 2j
    assert seeds.find(memory) is None
