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


def test_a_process_tells_its_parent_what_is_not_known(under):
    """Its own handlers take other exceptions for its end."""
    script = """
import torch
from pytest_attnmem.backends.null.program import prepare
prepare(10)
def fail(rank): (torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).tolist()
try:
    torch.multiprocessing.start_processes(fail, nprocs=1, start_method="fork")
except Exception as error:
    answer("pytest_attnmem.errors.UnknownInWorker: a value was read" in str(error))
"""
    assert under(script, ATTNMEM_TEST="a process of its own") == (True,)


def test_a_fork_may_be_the_first_to_use_the_device(under):
    """Launchers fork before CUDA starts; to look for PyTorch's kernels must not start it."""
    script = """
from pytest_attnmem.backends.null.built_kernels import refuse_without_kernels
import torch
refuse_without_kernels()
if os.fork() == 0:
    os._exit(int((torch.ones(3, device="cuda") * 2).numel()))
answer(os.waitstatus_to_exitcode(os.wait()[1]), torch.cuda.is_initialized())
"""
    assert under(script, ATTNMEM_TEST="a process of its own") == (3, False)


READ = """
import ctypes
cuda, on_device, host = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.create_string_buffer(8)
cuda.cudaMalloc(ctypes.byref(on_device), ctypes.c_size_t(8))
for _ in range(2):
    cuda.cudaMemcpy(host, on_device, ctypes.c_size_t(8), 2)
"""


@pytest.mark.parametrize("attended", [False, True])
def test_a_program_that_a_test_starts_says_that_it_reads_zeros(under, attended):
    """Nobody notes its operators. One that ``attnmem run`` starts has true values."""
    listens = "import ctypes; ctypes.CDLL(None).attnmem_null_on_read(None)\n" if attended else ""
    script = f"""
import subprocess
command = [sys.executable, "-c", {listens + READ!r}]
answer(subprocess.run(command, capture_output=True, text=True).stderr)
"""
    told = "attnmem: this process reads the null device, and gets zeros; start it by attnmem run\n"
    assert under(script, ATTNMEM_TEST="a process of its own") == ("" if attended else told,)


def test_a_queue_refuses_a_tensor_of_the_device_in_the_programs_thread(under):
    """Its own thread would print the error, and the receiver would wait for ever."""
    script = """
import torch
from multiprocessing import get_context
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
class Batch:  # of no kind that PyTorch knows
    def __init__(self, x):
        self.x = x
queue, told = get_context("fork").Queue(), []
x = torch.ones(2, device="cuda")
for given in (x, {"a": [Batch(x)]}, torch.nn.ParameterList([x])):
    try:
        queue.put(given)
    except RuntimeError as error:
        told.append(str(error).splitlines()[0])
queue.put(Batch(x.cpu()))
answer(told, queue.get(timeout=60).x.tolist())
"""
    refused = "CUDA error: operation not supported"
    assert under(script, ATTNMEM_TEST="a process of its own") == ([refused] * 3, [1, 1])
