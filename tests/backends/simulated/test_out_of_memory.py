"""The error of a request that does not fit has the text of PyTorch."""

import pytest
import torch

from pytest_attnmem.allocator import AllocationError
from pytest_attnmem.backends.simulated.session.simulation import out_of_memory


def test_the_error_has_pytorchs_text(run):
    """The null device has this text, but for the capacity."""

    def program():
        kept = torch.empty(1 << 30, device="cuda")
        with pytest.raises(torch.cuda.OutOfMemoryError) as caught:
            torch.empty(1 << 36, device="cuda")
        texts.append(str(caught.value))
        return kept

    texts = []
    run(program, "A100-40GB", primed=False)
    assert texts[0].startswith(
        "CUDA out of memory. Tried to allocate 256.00 GiB. GPU 0 has a total capacity of 39.39 GiB"
    )
    assert (
        " GiB is free. Of the allocated memory 4.00 GiB is allocated by PyTorch, and 0 bytes is"
        in texts[0]
    )


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        *((0, "0 bytes"), (1024, "1024 bytes"), (1025, "1.00 KiB"), (1 << 20, "1024.00 KiB")),
        *(((1 << 20) + 1, "1.00 MiB"), (1 << 30, "1024.00 MiB"), (5 << 40, "5120.00 GiB")),
    ],
)
def test_bytes_are_written_as_by_pytorch(nbytes, text):
    asked = AllocationError(0, nbytes, 0, 0, 0, 0)
    assert f"Tried to allocate {text}." in str(out_of_memory(asked))


def test_more_than_an_exabyte_has_a_text_of_its_own():
    asked = AllocationError(1 << 60, 1 << 60, 0, 0, 0, 0)
    assert str(out_of_memory(asked)) == (
        "CUDA out of memory. Tried to allocate more than 1EB memory."
    )
