"""Sessions of pytest that start themselves on the null device."""

import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

BUDGETS = """
import os
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.attention import SDPBackend, sdpa_kernel

EXACT = "2*B*H*N*N*itemsize"

@pytest.mark.memory_budget(EXACT, exact=True)
@pytest.mark.parametrize("N", [128, 512])
def test_scores(qkv, N):
    q, k, v = qkv(2, 4, N, 64, dtype="float16")
    (q @ k.transpose(-1, -2)).softmax(-1)

@pytest.mark.memory_budget("B*H*N*d*itemsize + B*H*N*4 + 24 + 1")
def test_flash(qkv):
    q, k, v = qkv(2, 4, 4096, 64, dtype="float16")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        scaled_dot_product_attention(q, k, v)

CUDNN = "B*H*N*d*itemsize + 16 + 256"  # the state of random numbers and the workspace

@pytest.mark.memory_budget(CUDNN, exact=True)
def test_cudnn(qkv):
    q, k, v = qkv(2, 4, 512, 64, dtype="float16")
    scaled_dot_product_attention(q, k, v)

@pytest.mark.memory_budget(CUDNN, exact=True, warmup=1)
def test_compiled_cudnn(qkv):
    q, k, v = qkv(2, 4, 512, 64, dtype="float16")
    torch.compile(scaled_dot_product_attention, backend="aot_eager")(q, k, v)

@pytest.mark.memory_budget("1 GiB")
def test_batch_norm():
    torch.nn.BatchNorm2d(3, device="cuda")(torch.ones(2, 3, 8, 8, device="cuda"))

@pytest.mark.memory_budget("1 GiB")
def test_network():
    assert torch.nn.GRU(4, 4, device="cuda")(torch.zeros(3, 2, 4, device="cuda"))[0][0, 0, 0] < 1

@pytest.fixture
def weight():
    weight = torch.nn.init.orthogonal_(torch.empty(64, 64, device="cuda"))
    torch.testing.assert_close(weight @ weight.mT, torch.eye(64, device="cuda"), atol=1e-5, rtol=0)
    torch.fft.fft(weight)
    return weight

@pytest.mark.memory_budget(64 * 64 * 4, exact=True)
def test_after_libraries(weight):
    weight * 2

@pytest.mark.memory_budget("1 GiB")
@pytest.mark.parametrize("call", [torch.fft.fft, torch.linalg.eigh])
def test_libraries(weight, call):
    call(weight)

@pytest.mark.memory_budget("1 GiB")
def test_graph():
    x = torch.ones(10, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="not supported"), torch.cuda.graph(graph):
        x + 1

@pytest.mark.memory_budget("2 KiB", exact=True)
def test_after_graph():
    x = torch.ones(16, 16, device="cuda")
    x @ x
    assert torch.cuda.current_stream() == torch.cuda.default_stream()

@pytest.mark.memory_budget("1 GiB")
def test_shape_from_data(qkv):
    q, k, v = qkv(2, 4, 64, 64)
    q[q > 0]

@pytest.mark.memory_budget("1 GiB")
def test_size_from_data(qkv):
    torch.empty(int(torch.ones(4, device="cuda", dtype=torch.long).sum()))

@pytest.mark.memory_budget("1 KiB")
def test_logged_values():
    loss = torch.ones(4, device="cuda").sum()
    print(f"{loss:.3f}", float(loss), loss.item())

@pytest.mark.memory_budget("1 KiB")
def test_unknown_call():
    import ctypes
    torch.ones(4, device="cuda")
    ctypes.CDLL(None).cuDestroyExternalMemory(None)

@pytest.mark.memory_budget("1 MiB")
def test_values(qkv, attnmem):
    q, k, v = qkv(1, 1, 16, 8)
    assert attnmem.computes
    torch.testing.assert_close(q + 1, (q.cpu() + 1).cuda())

@pytest.mark.memory_budget("1 MiB")
def test_compiled_values():
    out = torch.compile(lambda x: x * 2 + 1)(torch.ones(4, device="cuda"))
    torch.testing.assert_close(out, torch.full((4,), 3.0, device="cuda"))

@pytest.mark.memory_budget("1 MiB")
def test_compiled_random_values():
    out = torch.compile(lambda x: x * 2 + torch.rand_like(x))(torch.ones(4, device="cuda"))
    assert (out >= 2).all()

def test_compiled_random_values_unmarked():
    out = torch.compile(lambda x: x * 2 + torch.rand_like(x))(torch.ones(4, device="cuda"))
    assert out.sum() >= 8
"""
FAILING = """
import os
import pytest
import torch

@pytest.mark.memory_budget("1 MiB")
def test_compared(qkv):
    q, k, v = qkv(1, 1, 16, 8)
    torch.testing.assert_close(q + 1, q)

def test_unmarked():
    assert torch.ones(4, device="cuda").sum() == 5

def test_convolution():
    torch.nn.Conv2d(3, 3, 3, device="cuda")(torch.ones(1, 3, 8, 8, device="cuda"))

def attention(q, k, v):
    weights = (q @ k.transpose(-1, -2)).softmax(-1)
    return weights @ v

def test_sparse():
    ends, columns = torch.tensor([0, 1, 2], device="cuda"), torch.tensor([0, 1], device="cuda")
    torch.sparse_csr_tensor(ends, columns, torch.ones(2, device="cuda"), (2, 2)) @ ends[:2].float()

@pytest.mark.memory_budget("B*H*N*d*itemsize")
def test_over(qkv):
    attention(*qkv(1, 8, 1024, 64))

@pytest.mark.memory_budget("1 GiB")
def test_out_of_memory():
    keep = [torch.empty(2**30, dtype=torch.uint8, device="cuda") for _ in range(80)]

@pytest.mark.memory_budget("1 KiB", backend="cuda")
def test_elsewhere(): pass

@pytest.mark.memory_budget("1 KiB", backend="null:T4")
def test_of_another_kind(): pass
"""


def test_budgets_are_held_and_what_cannot_be_true_is_not_enforced(session):
    ran = session(BUDGETS, "--attnmem-strict=off", "--attnmem-backend", "null:H100")
    assert ran.code == 0, ran.out + ran.err
    cudnn = (
        "cuDNN's {} takes scratch that is known on a GPU alone; PyTorch's own can be had with"
        " torch.backends.cudnn.flags(enabled=False)"
    )
    library = "{} takes scratch that is known on a GPU alone; keep it out of the window"
    compiled = "a value was read at test_it.py:{} that is not known: a Triton kernel wrote it"
    assert ran.outcomes() == {
        "test_scores[128]": "within",
        "test_scores[512]": "within",
        "test_flash": "within",
        "test_cudnn": "within",
        "test_compiled_cudnn": "within",
        "test_batch_norm": cudnn.format("batch normalisation"),
        "test_network": cudnn.format("recurrent network"),
        "test_after_libraries": "within",
        "test_libraries[fft_fft]": library.format("cuFFT"),
        "test_libraries[linalg_eigh]": library.format("cuSOLVER's syevBatched"),
        "test_graph": "a CUDA graph was captured, which the null device cannot",
        "test_after_graph": "within",
        "test_shape_from_data": "within",
        "test_size_from_data": "within",
        "test_logged_values": "within",
        "test_unknown_call": "the null device does not know cuDestroyExternalMemory",
        "test_values": "within",
        "test_compiled_values": "within",
        "test_compiled_random_values": compiled.format(105),
    }
    assert "\n4.000 4.0 4.0\n" in ran.out
    assert "2 skipped" in ran.out.splitlines()[-1]
    assert "attnmem: on null:H100, which allocates like CUDA; values are computed" in ran.out
    unknown = r"attnmem: the null device does not know these calls: .*cudnnRNNForward \(1\)"
    assert re.search(unknown, ran.out)
    environment = ran.data["environment"]
    assert environment["device"] == "NVIDIA H100 (attnmem null device)"
    assert environment["null_device"]["devices"] == "H100"
    assert {row["backend"] for row in ran.data["results"]} == {"null:H100"}


REFUSED = """
import pytest
import torch

pytestmark = pytest.mark.memory_budget("1 GiB")

def test_ipc():
    torch.ones(4, device="cuda").untyped_storage()._share_cuda_()

def test_caught_ipc():
    with pytest.raises(RuntimeError):
        torch.cuda.Event(interprocess=True).ipc_handle()
    torch.ones(4, device="cuda")

def test_semi_structured():
    torch._cslt_compress(torch.ones(64, 64, device="cuda", dtype=torch.float16))

def test_runtime_of_its_own():
    runtime = pytest.importorskip("cuda.bindings.runtime")
    torch.ones(4, device="cuda")
    error, _ = runtime.cudaMalloc(1024)
    raise RuntimeError(f"CUDA error: {error!r}")  # as of torch.cuda.green_contexts

def test_nested():
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    torch.nested.nested_tensor(parts, device="cuda").unbind()[0].tolist()
"""
IPC = "nothing can be given to another process by CUDA IPC; give a copy on the host, x.cpu()"
SPARSE = "there is no cuSPARSELt, which multiplies semi-structured matrices"
BINDINGS = (
    "there is no driver for a library with a CUDA runtime of its own, as cuda.bindings is, which"
    " makes green contexts"
)
ASYNC = (
    "on null:H100 there is no cudaMallocAsync; leave backend:cudaMallocAsync out of"
    " PYTORCH_ALLOC_CONF"
)


def test_what_is_refused_is_named(session):
    ran = session(REFUSED, "--attnmem-backend", "null:H100")
    nested = "that is not known: the values of sparse and nested tensors are not followed"
    assert ran.outcomes() == {
        "test_ipc": f"on null:H100 {IPC}",
        "test_caught_ipc": f"on the null device {IPC}",
        "test_semi_structured": f"on null:H100 {SPARSE}",
        "test_runtime_of_its_own": f"on null:H100 {BINDINGS}",
        "test_nested": f"a value was read at test_it.py:26 {nested}",
    }
    for reason in (IPC, SPARSE, BINDINGS):
        assert f"attnmem: on the null device {reason}\n" in ran.out
    assert "does not know these calls" not in ran.out


def test_another_allocator_of_cuda_is_refused_by_name(session):
    ran = session(
        REFUSED, "--attnmem-backend=null:H100", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync"
    )
    assert {*ran.outcomes().values()} == {ASYNC}


def test_failures_say_where_they_ran_and_who_held_memory(session):
    ran = session(FAILING, ini="attnmem_backend = null", TORCH_CUDNN_V8_API_DISABLED="1")
    assert ran.code == 1
    assert "Mismatched elements: 128 / 128 (100.0%)" in ran.out
    assert "assert tensor(4., device='cuda:0') == 5" in ran.out
    older = "it must be 9.8 or newer, and TORCH_CUDNN_V8_API_DISABLED must not be set"
    assert f"on null:A100-80GB cuDNN cannot plan this without a GPU: {older}" in ran.out
    assert "on null:A100-80GB there is no cuSPARSE: its scratch is known only on a GPU" in ran.out
    assert "peak 64.0 MiB exceeds budget 2.0 MiB (32.0x) on null:A100-80GB" in ran.out
    assert "32.0 MiB  [1, 8, 1024, 1024] float32  softmax  test_it.py:18  in attention" in ran.out
    assert "out of memory on null:A100-80GB: tried to allocate 1024.00 MiB" in ran.out
    another = "backend 'null:T4' is not what this process runs under: null:A100-80GB"
    assert another in ran.out


def test_arguments_environment_and_workers_are_kept(session):
    tests = """
import os
import pytest
import torch

@pytest.mark.memory_budget(2048, device="cuda:1", exact=True)
@pytest.mark.parametrize("number", range(4))
def test_it(number, worker_id):
    assert (os.environ["OURS"], worker_id[:2]) == ("a b", "gw")
    assert torch.cuda.device_count() == 2
    torch.ones(512, device="cuda:1")
"""
    ran = session(
        tests, "-n", "2", "-k", "it and not 3", "--attnmem-backend=null:2xH100", OURS="a b"
    )
    assert ran.code == 0, ran.out + ran.err
    assert [*ran.outcomes().values()] == ["within"] * 3
    assert {row["backend"] for row in ran.data["results"]} == {"null:2xH100"}
    assert {row["device"] for row in ran.data["results"]} == {"cuda:1"}


def test_the_exit_code_is_pytests(session):
    empty = session("", "--attnmem-backend=null")
    assert empty.code == pytest.ExitCode.NO_TESTS_COLLECTED
    unknown = session("", "--attnmem-backend=null:H1000")
    assert unknown.code == pytest.ExitCode.USAGE_ERROR
    assert unknown.err.startswith("ERROR: --attnmem-backend: unknown device 'H1000'; did you")
    assert len(unknown.err.strip().splitlines()) == 1


def called_by_a_program(folder, first):
    """Runs pytest.main with arguments in a program that does something else *first*."""
    folder.joinpath("test_it.py").write_text(
        "import pytest, torch\n"
        "@pytest.mark.memory_budget('512 B')\n"
        "def test_it(): torch.ones(128, device='cuda')"
    )
    script = f"{first}; import pytest; raise SystemExit(pytest.main(['--attnmem-backend=null']))"
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_program_may_call_pytest_with_arguments_before_torch_is_imported(tmp_path):
    done = called_by_a_program(tmp_path, "pass")
    assert "1 budget, 1 within" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_a_program_that_has_imported_torch_is_told_in_one_line(tmp_path):
    done = called_by_a_program(tmp_path, "import torch")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == (
        "ERROR: --attnmem-backend: pytest.main was called with arguments of its own where torch is"
        " imported, and the null device must be there before; call it before torch is imported,"
        " run pytest from the command line, or the program with attnmem run"
    )


def test_large_tests_need_little_memory_and_a_plugin_may_import_torch(session):
    tests = """
import pytest
import torch

@pytest.mark.memory_budget("2*B*H*N*N*itemsize + B*H*N*d*itemsize")
@pytest.mark.parametrize("number", range(64))
def test_it(qkv, number):
    q, k, v = qkv(1, 16, 4096, 64, dtype="float16")
    (q @ k.transpose(-1, -2)).softmax(-1) @ v
"""
    ran = session(tests, "-p", "torch", "--attnmem-backend=null")
    assert ran.code == 0, ran.out + ran.err
    assert [*ran.outcomes().values()] == ["within"] * 64
    assert {row["peak_bytes"] for row in ran.data["results"]} == {2**30}
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20  # KiB


def test_a_session_that_is_killed_leaves_nothing_behind(tmp_path):
    tests = """
import time
import torch

def test_it():
    torch.ones(4, device="cuda")
    open("on", "w").close()
    time.sleep(60)
"""
    suite, home = tmp_path / "suite", tmp_path / "home"
    for folder in (suite, home):
        folder.mkdir()
    suite.joinpath("test_it.py").write_text(tests, "utf-8")
    command = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull)
    shared = {*os.listdir("/dev/shm")}
    process = subprocess.Popen(
        [*command, "--rootdir=.", "--attnmem-backend=null"],
        cwd=suite,
        env={**os.environ, "TMPDIR": str(home)},
        stdout=subprocess.DEVNULL,
    )
    while not suite.joinpath("on").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert sorted(os.listdir(suite)) == ["on", "test_it.py"]
    assert os.listdir(home) == []
    assert {*os.listdir("/dev/shm")} <= shared
