"""Random orders, and operators that fill a target: the bytes of the null device, 2.13 to 2.15."""

import pytest
import torch

I32 = torch.int32


def order(count, **options):
    return torch.randperm(count, device="cuda", **options)


def made(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


CALLS = {
    "no order": (lambda: order(0), 8),
    "an order of one tile": (lambda: order(1000), 24_001),
    "an order of tiles": (lambda: order(10_000), 373_119),
    "an order by long keys": (lambda: order(65_536), 3_174_911),
    "an order of int32 by long keys": (lambda: order(1_000_000, dtype=I32), 36_280_063),
    "an order in a target": (lambda: order(1000, out=made(1000, dtype=torch.int64)), 24_001),
    "an order in a target with gaps": (
        lambda: order(5, out=made(5, 2, dtype=torch.int64)[:, 0]),
        201,
    ),
    "sums in a target": (lambda: torch.cumsum(made(1000), 0, out=made(1000)), 9023),
    "sums in a target with gaps": (
        lambda: torch.cumsum(made(100, 200), 0, out=made(200, 100).t()),
        240_000,
    ),
    "products in a target": (lambda: torch.cumprod(made(9, 9), 0, out=made(0)), 648),
    "steps in a target": (lambda: torch.arange(2, 22, 1, device="cuda", out=made(20)), 80),
    "steps in a target with gaps": (lambda: torch.arange(2, 22, 1, out=made(20, 2)[:, 0]), 240),
    "zeros in a target with gaps": (lambda: torch.zeros(20, out=made(20, 2)[:, 0]), 160),
}


@pytest.mark.parametrize(("call", "nbytes"), CALLS.values(), ids=CALLS)
def test_a_call_takes_what_it_does_on_the_null_device(run, call, nbytes):
    seen = run(call)
    assert (seen.peak_bytes, seen.unmeasured) == (nbytes, None)
