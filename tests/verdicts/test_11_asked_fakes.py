"""A program that asks for the nature of a simulated tensor is told what a device would tell it."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

ASKING = '''
import pytest, torch
import torch._subclasses
import torch.fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake
from torch.utils._python_dispatch import TorchDispatchMode, is_in_torch_dispatch_mode

outside = torch.ones(4)

def is_tracing(x):
    """As libraries of models have it."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch.cuda.is_current_stream_capturing()
        or isinstance(x, torch.fx.Proxy)
        or isinstance(x, getattr(torch, "_subclasses").FakeTensor)
    )

def local(x):
    from torch._subclasses.fake_tensor import FakeTensor
    return isinstance(x, FakeTensor)

WAYS = {
    "isinstance": lambda x: isinstance(x, FakeTensor),
    "of several": lambda x: isinstance(x, (list, FakeTensor)),
    "imported in a function": local,
    "by its type": lambda x: issubclass(type(x), FakeTensor),
    "by its bases": lambda x: any("Fake" in base.__name__ for base in type(x).__mro__),
    "by name": lambda x: type(x).__module__.partition(".")[0] != "torch",
    "is_fake": is_fake,
    "its mode": lambda x: hasattr(x, "fake_mode"),
    "its device": lambda x: hasattr(x, "fake_device"),
    "the device's name": lambda x: str(x.device) != "cuda:0" or not x.is_cuda or x.is_meta,
    "compiling": lambda x: torch.compiler.is_compiling(),
    "tracing": is_tracing,
    "functional": lambda x: torch._is_functional_tensor(x),
    "the mode around it": lambda x: detect_fake_mode() or detect_fake_mode(x),
    "the guards": lambda x: torch._guards.detect_fake_mode(x),
    "in a mode": lambda x: is_in_torch_dispatch_mode(),
    "the mode that is on": lambda x: torch.utils._python_dispatch._get_current_dispatch_mode(),
    "the stack of modes": lambda x: torch._C._len_torch_dispatch_stack(),
}

@pytest.mark.memory_budget("4 KiB", backend="simulated")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", ["factory", "fixture", "result", "outside", "parameter"])
def test_it(way, made, qkv):
    x = {
        "factory": lambda: torch.ones(4, device="cuda"),
        "fixture": lambda: qkv(1, 1, 2, 2)[0],
        "result": lambda: qkv(1, 1, 2, 2)[0] @ qkv(1, 1, 2, 2)[0],
        "outside": lambda: outside.cuda() + 1,
        "parameter": lambda: torch.nn.Parameter(torch.ones(4, device="cuda")),
    }[made]()
    assert not WAYS[way](x)
'''

MASKED = """
import pytest, torch
from torch._subclasses.fake_tensor import FakeTensor

def masked(q, k, v, mask):
    if not isinstance(mask, FakeTensor) and torch.all(mask == 1):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    N = q.shape[-2]
    full = torch.ones(N, N, dtype=torch.bool, device=q.device).tril()
    full = full & mask[:, None, None, :].bool()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=full)

@pytest.mark.memory_budget("O(N*d)", backend="simulated")
@pytest.mark.parametrize("N", [4096])
def test_linear(qkv, N):
    q, k, v = qkv(B=2, H=8, N=N, d=64)
    masked(q, k, v, torch.ones(2, N, dtype=torch.long, device=q.device))
"""


def test_no_way_of_asking_tells_a_simulated_tensor_from_one_of_a_device(suite):
    suite.write(ASKING)
    assert suite.run("--attnmem-strict=off").outcomes == {"passed": 90}


def test_the_branch_is_taken_that_a_device_takes_by_its_values(suite):
    suite.write(MASKED)
    assert suite.run().outcome("test_linear[4096]") == "within"
    suite.write(MASKED.replace("torch.ones(2, N, dtype", "torch.zeros(2, N, dtype"))
    assert suite.run().outcome("test_linear[4096]").startswith("over: peak grows as ")
