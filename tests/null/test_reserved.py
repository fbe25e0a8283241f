"""Reserved bytes grow from the segments that are in use when a window begins."""

import pytest

SCRIPT = """
import torch
from pytest_attnmem.backends.null import open_backend
from pytest_attnmem.measurement.window_stack import window

def used():
    return [segment for segment in torch.cuda.memory_snapshot() if segment["allocated_size"]]

older = torch.empty(24 * MIB, dtype=torch.uint8, device="cuda")
with window(open_backend(""), "reserved") as opened:
    before = torch.cuda.memory_reserved()
    torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    after = torch.cuda.memory_reserved()
answer(before // MIB, after // MIB, opened.measurement.reserved_bytes // MIB)
"""


@pytest.mark.parametrize(
    ("settings", "before", "after", "grown"),
    [
        # Pages of 20 MiB: 16 MiB beside the older 24 MiB are free, so the tensor starts there.
        ("expandable_segments:True", 40, 100, 60),
        ("expandable_segments:False", 24, 88, 64),
    ],
)
def test_free_room_beside_an_older_tensor_is_no_growth(under, settings, before, after, grown):
    assert under(SCRIPT, PYTORCH_CUDA_ALLOC_CONF=settings) == (before, after, grown)
