"""Tests of the hint below a failure of a test that uses CUDA where there is none."""

HINT = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def test_a_measured_test_that_lacks_a_device_is_told_what_has_one(suite):
    suite.write("""
import pytest

def _lazy_init():  # as torch.cuda's, which a session before may have replaced in this process
    raise AssertionError("Torch not compiled with CUDA enabled")

@pytest.fixture
def model(): _lazy_init()

@pytest.mark.memory_budget("1 KiB")
def test_body(): _lazy_init()

@pytest.mark.memory_budget("1 KiB")
def test_fixture(model): pass

@pytest.mark.memory_budget("1 KiB")
def test_other(): raise AssertionError("Torch not compiled with CUDA enabled")

def test_unmarked(): _lazy_init()
""")
    ran = suite.run("-rN")
    assert ran.report("test_body")[-1] == ran.report("ERROR at setup of test_fixture")[-1] == HINT
    assert ran.text.count(HINT) == 2
