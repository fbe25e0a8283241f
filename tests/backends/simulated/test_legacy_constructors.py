"""Constructors of PyTorch's first years; tests/plugin/test_simulated_fixtures.py has more."""

import pytest
import torch


def test_the_types_of_the_device_make_tensors_there(run):
    found = {}

    def program():
        x = torch.cuda.FloatTensor([1.0, 2.0])
        found.update(
            data=x.tolist(),
            sizes=tuple(torch.cuda.HalfTensor(2, 3).shape),
            of_size=tuple(torch.cuda.FloatTensor(torch.Size([2, 3])).shape),
            none=tuple(torch.cuda.LongTensor().shape),
            shared=torch.cuda.FloatTensor(x).data_ptr() == x.data_ptr(),
            own=isinstance(x, torch.cuda.FloatTensor),
            other=isinstance(x, torch.cuda.LongTensor),
            host=isinstance(torch.ones(1, device="cpu"), torch.cuda.FloatTensor),
            new=(x.new(4).shape[0], x.new([3.0]).tolist(), x.new(x).tolist()),
        )

    run(program)
    assert found == {
        **{"data": [1, 2], "sizes": (2, 3), "of_size": (2, 3), "none": (0,), "shared": True},
        **{"own": True, "other": False, "host": False, "new": (4, [3], [1, 2])},
    }


def test_memory_of_another_type_is_pytorchs_error(run):
    def program():
        with pytest.raises(TypeError, match=r"^expected torch\.int64 on cuda:0 \(got torch\.cuda"):
            torch.cuda.LongTensor(torch.ones(2, device="cuda"))

    run(program)
