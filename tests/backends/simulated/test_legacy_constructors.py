"""Constructors of PyTorch's first years; tests/plugin/test_simulated_fixtures.py has more."""

import pytest
import torch


def test_the_types_of_the_device_make_tensors_there(run):
    def program():
        x = torch.cuda.FloatTensor([1.0, 2.0])
        assert x.tolist() == [1, 2]
        assert torch.cuda.HalfTensor(2, 3).shape == (2, 3)
        assert torch.cuda.FloatTensor(torch.Size([2, 3])).shape == (2, 3)
        assert torch.cuda.LongTensor().shape == (0,)
        assert torch.cuda.FloatTensor(x).data_ptr() == x.data_ptr()
        assert isinstance(x, torch.cuda.FloatTensor)
        assert not isinstance(x, torch.cuda.LongTensor)
        assert not isinstance(torch.ones(1, device="cpu"), torch.cuda.FloatTensor)
        assert (x.new(4).shape, x.new([3.0]).tolist(), x.new(x).tolist()) == ((4,), [3], [1, 2])

    run(program)


def test_memory_of_another_type_is_pytorchs_error(run):
    def program():
        with pytest.raises(TypeError, match=r"^expected torch\.int64 on cuda:0 \(got torch\.cuda"):
            torch.cuda.LongTensor(torch.ones(2, device="cuda"))

    run(program)
