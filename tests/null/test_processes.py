"""The processes that a program starts by ``multiprocessing``, on its null device."""

import importlib.resources

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


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_values_are_true_in_a_process_that_a_program_starts(under, method):
    script = f"METHOD = {method!r}\n{STARTED}"
    assert under(script, ATTNMEM_TEST="a process of its own") == (6,)


def test_values_are_true_in_a_program_that_a_program_starts(under, tmp_path):
    """The user's own ``sitecustomize`` runs too, and what is in PYTHONPATH is found."""
    tmp_path.joinpath("sitecustomize.py").write_text("found = 'own'", "utf-8")
    script = f"""
import subprocess
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
os.environ["PYTHONPATH"] += os.pathsep + {str(tmp_path)!r}
code = "import sitecustomize, sys, torch; "
code += "print(sitecustomize.found, 'triton' in sys.modules, {SUM})"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
plain = subprocess.run([sys.executable, "-c", "import sys; print('torch' in sys.modules)"],
                       capture_output=True, text=True)
answer(done.stdout.split(), done.stderr, plain.stdout.strip(), plain.stderr)
"""
    found = under(script, ATTNMEM_TEST="a process of its own")
    assert found == (["own", "False", "6.0"], "", "False", "")


def test_values_are_true_in_an_isolated_process_by_the_line_in_site_packages(under, tmp_path):
    """It ignores PYTHONPATH."""
    line = importlib.resources.files("pytest_attnmem.nulldevice").joinpath("front.pth")
    tmp_path.joinpath("front.pth").write_text(line.read_text("utf-8"), "utf-8")
    script = f"""
import subprocess
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
start = "import site, sys; site.addsitedir({str(tmp_path)!r});"
start += "sys.modules.pop('sitecustomize', None); site.execsitecustomize();"
code = start + "print(sys.flags.isolated, {SUM}, any('startup' in one for one in sys.path))"
done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
answer(done.stdout.split(), done.stderr)
"""
    assert under(script, ATTNMEM_TEST="a process of its own") == (["1", "6.0", "False"], "")


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
print(host.raw.hex())
"""


@pytest.mark.parametrize("attended", [False, True])
def test_a_process_for_which_nobody_computes_values_reads_nan_and_says_so(under, attended):
    """A number that it takes for true would be worse, and zeros are such numbers."""
    listens = "import ctypes; ctypes.CDLL(None).attnmem_null_on_read(None)\n" if attended else ""
    script = f"""
import subprocess
command = [sys.executable, "-c", {listens + READ!r}]
done = subprocess.run(command, capture_output=True, text=True)
answer(done.stderr, done.stdout)
"""
    told = "attnmem: this process reads the null device, and computes no values: numbers are NaN\n"
    found = ("", "00" * 8 + "\n") if attended else (told, "ff" * 8 + "\n")
    assert under(script, ATTNMEM_TEST="a process of its own") == found


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
