"""Published numbers of attention's memory, and what the models of this project say of the same.

Bytes throughout; ``None`` stands for out of memory.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from replays import device, emptied, replay, workloads
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.simulated.attention.sdp_params import Described, SdpParams
from pytest_attnmem.backends.simulated.attention.select_backend import select_backend
from pytest_attnmem.budgets.memory_model import MemoryModel, Phase
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.kernels import chunked, standard
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.symbols.attention_shape import AttentionShape

MIB, GIB = 1 << 20, 1 << 30

# FlashAttention, arXiv 2205.14135v2, Table 21: peaks in MiB on an A100 of 40 GB.
FLASH_LENGTHS = tuple(128 << step for step in range(10))
FLASH_PAPER = {
    "PyTorch": (36, 104, 336, 1184, 4416, 17024, None, None, None, None),
    "FlashAttention": (22, 44, 104, 209, 418, 836, 1672, 3344, 6688, 13376),
}
CLOSED_FORMS = {
    "PyTorch": "4*B*H*N^2*itemsize + 10*B*H*N*d*itemsize",
    # Its gradient of q is added up in float32 where there is more than one block of keys.
    "FlashAttention": "11*B*H*N*d*itemsize + min(1, N//257)*4*B*H*N*d + 2*B*H*N*4",
}
FLASH_DEVICE = "A100-40GB"


def closed_form(row: str, length: int) -> int | None:
    sizes = {"B": 16, "H": 8, "N": length, "d": 64, "itemsize": 2}
    formula = parse_formula(CLOSED_FORMS[row])
    nbytes = formula.evaluate({name: sizes[name] for name in formula.symbols})
    return nbytes if nbytes <= find_profile(FLASH_DEVICE).memory_bytes else None


def flash_paper(row: str, length: int) -> int | None:
    """The same benchmark as PyTorch 2.13 runs it, simulated."""
    standard_attention = workloads("workloads")["flash_paper"]
    run = {"PyTorch": standard_attention, "FlashAttention": packed_flash}[row]
    found = replay(lambda: run(length), FLASH_DEVICE)
    return None if found.problem.startswith("out of memory") else found.requested


def packed_flash(N: int, B: int = 16, H: int = 8, d: int = 64) -> None:
    qkv = torch.empty(B, N, 3, H, d, device="cuda", dtype=torch.float16, requires_grad=True)
    q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
    train(F.scaled_dot_product_attention, q, k, v, SDPBackend.FLASH_ATTENTION)


def train(attend: Callable, q, k, v, backend: SDPBackend) -> None:
    with sdpa_kernel(backend):
        out = attend(q, k, v)
    out.backward(torch.empty_like(out))


# Rabe & Staats, arXiv 2112.05682, Tables 2 and 3: overhead over inputs and outputs on a TPU v3.
MEMORY_EFFICIENT_LENGTHS = tuple(1 << power for power in range(8, 21, 2))
RABE_STAATS = {
    "inference, standard": ("270K", "4.0M", "64M", "1G", None, None, None),
    "inference, memory-efficient": ("270K", "4.0M", "16M", "17M", "21M", "64M", "256M"),
    "gradient, standard": ("532K", "8.0M", "128M", "2.0G", None, None, None),
    "gradient, memory-efficient": ("532K", "8.0M", "41M", "64M", "257M", "1.0G", "4.0G"),
}
TPU_V3_BYTES = 16 * GIB
#: Summaries of every chunk of keys stacked before they are merged, and the output put together
#: from chunks of queries at the end, as its Figure 1 has it; the bundled kernel does neither.
AS_PUBLISHED = MemoryModel(
    "Rabe & Staats",
    (
        Phase(
            "summarize_chunk",
            {
                "exp_weights": "4*B*H*min(N, 1024)*min(N, 4096)",
                "summaries": "4*B*H*min(N, 1024)*ceil(N/4096)*(d + 2)",
            },
        ),
        Phase("reshape", {"chunks": "4*B*H*N*d"}),
    ),
)
_OUTPUTS = {"out", "dq", "dk", "dv", "q gradient", "k gradient", "v gradient"}


def overhead(row: str, length: int) -> int | None:
    """Returns the bytes that the row's kernel needs besides inputs, output and gradients."""
    half, chunks = {"itemsize": 2}, {"itemsize": 4, "chunk_q": 1024, "chunk_k": 4096}
    model, options = {
        "inference, standard": (standard.MODEL.forward, half),
        "inference, memory-efficient": (chunked.MODEL.forward, chunks),
        "gradient, standard": (standard.MODEL.training, half),
        "gradient, memory-efficient": (chunked.MODEL.training, chunks),
    }[row]
    nbytes = beside_outputs(model, length, **options)
    return nbytes if nbytes < TPU_V3_BYTES else None


def beside_outputs(model: MemoryModel, length: int, **options: int) -> int:
    sizes = {"B": 1, "H": 1, "N": length, "M": length, "d": 64, "dv": 64, **options}
    return max(
        sum(nbytes for name, nbytes in alive.items() if name not in _OUTPUTS)
        for alive in model.live(AttentionShape(sizes), ("cuda",)).values()
    )


def written(nbytes: int | None, as_in: str | None) -> str:
    """With the unit and the decimals of ``as_in``, in powers of two."""
    if nbytes is None:
        return "OOM"
    if as_in is None:
        return f"{nbytes / MIB:.1f}M"
    unit, decimals = as_in[-1], len(as_in[:-1].partition(".")[2])
    return f"{nbytes / (1 << {'K': 10, 'M': 20, 'G': 30}[unit]):.{decimals}f}{unit}"


# unslothai/unsloth#8821: GiB, forward and backward, B=1 H=32 d=128 bfloat16, on an AMD device.
UNSLOTH_LENGTHS = (1024, 2048, 4096)
UNSLOTH = {"math": (0.75, 2.35, 8.55), "flash": (0.24, 0.34, 0.52)}


def unsloth(row: str, length: int) -> int:
    def body() -> None:
        q, k, v = (
            torch.empty(1, 32, length, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )
        backend = {"math": SDPBackend.MATH, "flash": SDPBackend.FLASH_ATTENTION}[row]
        train(F.scaled_dot_product_attention, q, k, v, backend)

    return replay(body, "A100-80GB").requested


# Which backend scaled_dot_product_attention takes by default in PyTorch 2.13.
CHOICES = {
    ("6.1", "7.0", "7.5"): "efficient efficient math efficient efficient math efficient math",
    ("8.0", "8.6", "8.9", "12.0"): "flash efficient flash flash efficient flash efficient math",
    ("9.0",): "cudnn cudnn cudnn cudnn efficient cudnn efficient math",
    ("10.0",): "cudnn cudnn cudnn flash efficient cudnn efficient math",
}
CHOICE_CASES = {
    "fp16 d64": {},
    "mask": {"mask": True},
    "GQA": {"kv_heads": 2},
    "d256": {"d": 256},
    "d288": {"d": 288},
    "bf16": {"dtype": "bfloat16"},
    "fp32": {"dtype": "float32"},
    "fp32 GQA": {"dtype": "float32", "kv_heads": 2},
}


def chosen(capability: str) -> str:
    major, minor = map(int, capability.split("."))
    return " ".join(_chosen((major, minor), **case) for case in CHOICE_CASES.values())


def _chosen(capability, dtype="float16", d=64, mask=False, kv_heads=4) -> str:
    def described(heads: int) -> Described:
        return Described((2, heads, 512, d), (heads * 512 * d, 512 * d, d, 1), dtype)

    query, key = described(4), described(kv_heads)
    given = Described((512, 512), (512, 1), dtype) if mask else None
    asked = SdpParams(query, key, key, capability, (2, 13), given, enable_gqa=kv_heads < 4)
    return select_backend(asked).backend or "none"


#: The workspace of pytorch#95668 after a forward, seen on an A10G, and its size since Hopper.
WORKSPACES = {"A10G": 8_519_680, "H100": 33_554_432, "B200": 33_554_432, "T4": 8_519_680}


def workspaces(on: str) -> tuple[int, int]:
    """Returns the bytes besides tensors that a linear layer leaves after forward and backward."""
    backend, found = device(on), []

    def body() -> None:
        layer = nn.Linear(64, 64, device="cuda", dtype=torch.float32)
        x = torch.empty(128, 64, device="cuda", requires_grad=True)
        before = torch.cuda.memory_allocated()
        out = layer(x)
        found.append(torch.cuda.memory_allocated() - before - out.nbytes)
        out.backward(torch.empty_like(out))
        gradients = x.grad.nbytes + layer.weight.grad.nbytes + 512  # the bias fills a block
        found.append(torch.cuda.memory_allocated() - before - out.nbytes - gradients)

    emptied(backend, primed=False)
    PrimedBackend(backend, 0).run(body)
    return found[0], found[1]
