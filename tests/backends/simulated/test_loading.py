"""The first file that a process reads; later ones leave nothing, so no other test is here."""

import gc
import io

import torch


def test_a_file_that_was_read_keeps_nothing(run):
    def program():
        x = torch.ones(27, 19, device="cuda")
        torch.save(x, file := io.BytesIO())
        file.seek(0)
        total = x + torch.load(file, map_location="cuda")
        tensors = [one for one in gc.get_objects() if isinstance(one, torch.Tensor)]
        assert (27 * 19,) not in [tensor.shape for tensor in tensors]  # the storage as a whole
        return total

    assert run(program).retained_bytes == 27 * 19 * 4
