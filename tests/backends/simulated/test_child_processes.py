"""Processes that a program forks: they have no device, and what they send back is true."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Made(Dataset):
    """Its items are made in the worker."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.make((3,), float(index)), index


def loaded(batches):
    return [batch.to("cuda").sum().item() for batch, *_ in batches]


@pytest.mark.parametrize("named", [False, True], ids=["unnamed", "named"])
@pytest.mark.parametrize("make", [torch.full, np.full], ids=["tensor", "array"])
def test_workers_make_batches_on_the_host(run, make, named):
    def program():
        assert not named or torch.ones(1, device="cuda").is_cuda
        found.append(loaded(DataLoader(Made(make), batch_size=4, num_workers=2)))

    found = []
    seen = run(program)
    assert (found[-1], seen.unmeasured) == ([18, 66], None)
    assert seen.peak_bytes > 12 * (4 if make is torch.full else 8)


def test_workers_read_tensors_of_the_window_and_pin_what_they_make(returned):
    def program():
        data = TensorDataset(torch.arange(8.0) + 1)
        return loaded(DataLoader(data, batch_size=4, num_workers=1, pin_memory=True))

    assert returned(program) == [10, 26]
