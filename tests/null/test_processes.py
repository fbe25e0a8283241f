"""The processes that a program starts by ``multiprocessing``, on its null device."""

import pytest

SUM = "__import__('torch').arange(4.0, device='cuda').sum().item()"
STARTED = f"""
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
with ProcessPoolExecutor(1, mp_context=get_context(METHOD)) as pool:
    found = pool.submit(eval, {SUM!r}).result()
answer(found)
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_values_are_true_in_a_process_that_a_program_starts(under, method):
    script = f"METHOD = {method!r}\n{STARTED}"
    assert under(script, ATTNMEM_TEST="a process of its own") == (6,)
