"""Views that are written in place have the gradients that they have on a device."""

import pytest
import torch

#: The writes of a view itself, of its base and of another view.
WRITES = (
    lambda base, seen, other: seen.mul_(2),
    lambda base, seen, other: base.mul_(2),
    lambda base, seen, other: other.mul_(2),
)
#: Views, and the peaks of the null device for each of the writes.
VIEWS = {
    "pure": (lambda base: base.view(-1), [4_195_328, 2_098_176, 4_195_328]),
    "two selections": (lambda base: base[:128][:, :512], [2_622_464, 2_098_176, 2_622_464]),
    "overlapping": (lambda base: base.unfold(-1, 2, 1), [9_432_064] * 3),
}


def peak_of_backward(view, write):
    """Returns the peak of the backward pass of a view that is used after a write."""
    base = torch.ones(256, 1024, device="cuda", requires_grad=True) * 3
    seen = view(base)
    write(base, seen, view(base))
    used = seen * 2
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    used.sum().backward()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize(("view", "peaks"), VIEWS.values(), ids=VIEWS)
def test_a_view_that_was_written_has_the_gradient_of_its_base(returned, view, peaks):
    assert returned(lambda: [peak_of_backward(view, write) for write in WRITES]) == peaks
