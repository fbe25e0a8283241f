"""Tests of the hint below a failure of a test that uses CUDA where there is none."""

HINT = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def test_a_measured_test_that_lacks_a_device_is_told_what_has_one(suite):
    suite.write("""
import pytest

@pytest.fixture
def model(): raise RuntimeError("Found no NVIDIA driver on your system. Please check …")

@pytest.mark.memory_budget("1 KiB")
def test_body(): raise AssertionError("Torch not compiled with CUDA enabled")

@pytest.mark.memory_budget("1 KiB")
def test_fixture(model): pass

@pytest.mark.memory_budget("1 KiB")
def test_other(): raise AssertionError("another")

def test_unmarked(): raise AssertionError("Torch not compiled with CUDA enabled")
""")
    ran = suite.run("-rN")
    assert ran.report("test_body")[-1] == ran.report("ERROR at setup of test_fixture")[-1] == HINT
    assert ran.text.count(HINT) == 2
