"""A component of a peak is named after the operator that made it, not after its shape."""

import pytest

from pytest_attnmem.report.html import components
from pytest_attnmem.report.record import from_dict

SUITE = """
import pytest
import torch

@pytest.mark.memory_budget("1 KiB")
@pytest.mark.parametrize("N", [64])
def test_mask(N):
    mask = torch.ones(N, N, dtype=torch.bool).tril()
    repeated = mask.repeat(2, 4, 1, 1)
    tiles = [torch.zeros(N, 16) for _ in range(3)]
"""


@pytest.mark.parametrize(
    "backend", ["cpu", pytest.param("simulated:H100", marks=pytest.mark.thorough)]
)
def test_a_repeated_mask_is_no_scores(suite, backend):
    suite.write(SUITE)
    row = from_dict(suite.run(f"--attnmem-backend={backend}").row("test_mask[64]"))
    found = [(part.name, part.nbytes, part.growth) for part in components(row)]
    assert found == [
        ("repeat [2, 4, N, N]", 32768, "O(N²)"),
        ("zeros [N, 16]", 12288, "O(N)"),
        ("tril [N, N]", 4096, "O(N²)"),
    ]
