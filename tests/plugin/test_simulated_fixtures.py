"""Fixtures of a simulated session: what they run on the device has the values of a device."""

import pytest

SUITE = """
import pytest
import torch
import torch.nn.functional as F


@pytest.fixture
def parts():
    x = torch.arange(24.0, device="cuda").reshape(4, 6)
    return x.tensor_split(torch.tensor([1, 3]))


@pytest.fixture
def cast():
    layer, x = torch.nn.Linear(4, 4, device="cuda"), torch.arange(12.0, device="cuda").reshape(3, 4)
    with torch.autocast("cuda", dtype=torch.float16):
        y = layer(x)
    (y.sum() * 65536).backward()
    return y, layer.weight.grad


@pytest.mark.memory_budget("1 KiB")
def test_values(parts, cast):
    assert [len(part) for part in parts] == [1, 2, 1]
    assert torch.tensor([torch.tensor(2.0)]).tolist() == [2.0]  # a tensor is no sequence
    y, grad = cast
    assert y.dtype is torch.float16 and not torch.isfinite(grad).all()
    assert y.type(torch.float32).type() == "torch.cuda.FloatTensor"
"""


@pytest.fixture
def suite(pytester):
    pytester.makepyfile(SUITE)
    return pytester


def test_parts_and_casts_are_as_in_windows(suite):
    suite.runpytest("--attnmem-backend=simulated").assert_outcomes(passed=1)


def test_a_measurement_in_a_test_is_on_the_device_of_the_session(pytester):
    pytester.makepyfile(
        """
        import torch
        from pytest_attnmem import measure

        def test_it():
            measured = measure(lambda: torch.ones(1000, device="cuda") * 2)
            assert measured.backend == "simulated:A100-80GB" and measured.peak_bytes == 8000
        """
    )
    result = pytester.runpytest("--attnmem-backend=simulated:A100-80GB")
    result.assert_outcomes(passed=1)
