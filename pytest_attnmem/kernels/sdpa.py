"""PyTorch's ``scaled_dot_product_attention``, pinned to one of its backends.

The models of flash, efficient and cuDNN do not count the scratch of CUDA's fused kernels, which is
large in their backward pass (aten/src/ATen/native/transformers/cuda).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import ops
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..budgets.memory_model import KernelModel, MemoryModel, Phase
from .input_checks import check_inputs
from .kernel import Kernel
from .memory_terms import HALF, LOSS, OUT, WIDE, K, Q, V

if TYPE_CHECKING:
    from torch import Tensor


def flash(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """The flash backend, on the CPU or on CUDA; dv = d.

    q [B, H, N, d], k and v [B, H, M, d] → out [B, H, N, d].

    Raises:
        ValueError: shapes or dtypes do not fit together.
        RuntimeError: the backend refuses these inputs; the text says why.

    O(N·d) memory, O(N²·d) time: Dao, 2023 (arXiv 2307.08691), FlashAttention-2.
    """
    return _attention(SDPBackend.FLASH_ATTENTION, q, k, v, causal, scale)


def efficient(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """The memory-efficient backend, on CUDA.

    q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv] → out [B, H, N, dv]. Raises as :func:`flash`.

    O(N·d) memory, O(N²·d) time: Rabe and Staats, 2021 (arXiv 2112.05682), Self-attention Does Not
    Need O(n²) Memory.
    """
    return _attention(SDPBackend.EFFICIENT_ATTENTION, q, k, v, causal, scale)


def cudnn(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """cuDNN's backend, on CUDA; PyTorch prefers it on Hopper and on Blackwell's B200.

    q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv] → out [B, H, N, dv]. Raises as :func:`flash`.

    O(N·d) memory, O(N²·d) time: Dao, 2023 (arXiv 2307.08691), FlashAttention-2.
    """
    return _attention(SDPBackend.CUDNN_ATTENTION, q, k, v, causal, scale)


def math(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The math backend, on any device: scores and weights in full, of float32 at least.

    q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv] → out [B, H, N, dv]. ``mask`` broadcasts to
    [B, H, N, M]: bool, True for a visible key, or of q's dtype, added to the scores; not
    together with ``causal``. A query that sees no key gets zeros. Raises as :func:`flash`.

    O(N² + N·d) memory, O(N²·d) time: Vaswani et al., 2017 (arXiv 1706.03762), Attention Is All
    You Need.
    """
    return _attention(SDPBackend.MATH, q, k, v, causal, scale, mask)


def _attention(
    backend: SDPBackend,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool,
    scale: float | None,
    mask: Tensor | None = None,
) -> Tensor:
    check_inputs(q, k, v, mask)
    if causal and mask is not None:
        raise ValueError("causal and mask exclude each other in sdpa; make causal a part of mask")
    name, device = backend.name.removesuffix("_ATTENTION").lower(), q.device.type
    if backend is not SDPBackend.MATH and device not in ("cpu", "cuda"):
        # There PyTorch does not look at what was asked for.
        raise RuntimeError(f"sdpa has no choice of backends on {device}, and {name} was asked for")
    # The reasons for a refusal come as warnings.
    with sdpa_kernel(backend), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=causal, scale=scale
            )
        except RuntimeError:
            if not _is_refused(q, k, v, mask, causal, scale):
                raise
    texts = (str(warning.message).partition("(Triggered")[0].strip() for warning in caught)
    reasons = "; ".join(text for text in texts if text and not text.endswith("because:"))
    dtype = str(q.dtype).removeprefix("torch.")
    reasons = reasons or f"there is none for {dtype} on {device}"
    raise RuntimeError(f"sdpa's {name} backend refuses: {reasons}")


def _is_refused(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float | None
) -> bool:
    """Asks PyTorch to choose a backend, which fails if it may take none of these inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reasons again
        try:
            ops.aten._fused_sdp_choice(q, k, v, mask, 0.0, causal, scale=scale)
        except RuntimeError:
            return True
    return False


_OUT = {"out": OUT}
_GRADS = {"q gradient": Q, "k gradient": K, "v gradient": V, **LOSS}


def _fused(name: str, lse: str, forward: Phase, backward: Mapping[str, str]) -> KernelModel:
    """A kernel that keeps out and ``lse`` for backward, which needs ``backward`` on the CPU."""
    kept = {**_OUT, "lse": lse}
    on_cuda = {kind: terms for kind, terms in forward.scratch.items() if kind == "cuda"}
    # Fused kernels make gradients as [B, N, H, d]; autograd copies each to its input's layout.
    copy = f"max({Q}*min(1, (H-1)*(N-1)), max({K}, {V})*min(1, (H-1)*(M-1)))"
    return KernelModel(
        MemoryModel(f"{name} forward", (forward,)),
        MemoryModel(
            f"{name} training",
            (
                Phase("attention", kept, forward.scratch),
                Phase("backward", {**kept, **_GRADS}, {"cpu": backward, **on_cuda}),
                Phase("gradients kept", {**_GRADS, "copy of one": copy}),
            ),
        ),
    )


_SEEDS = {"seed and offset": "16"}

# The CPU's kernel gives each thread a tile of scores, this many rows by columns.
_ROWS = "min(N, 32 + 32*min(1, N//192) + 192*min(1, N//768))"
_TILE = f"{_ROWS}*min(M, 512)"
_CPU_LSE = f"B*H*N*{WIDE}"

FLASH = _fused(
    "sdpa flash",
    _CPU_LSE,
    Phase(
        "attention",
        {**_OUT, "lse": _CPU_LSE},
        {
            "cpu": {
                "tiles of threads": f"threads*({_TILE} + {_ROWS}*(d + 2))*{WIDE}",
                "half tiles of threads": f"threads*{_TILE}*itemsize*{HALF}",
            },
            # seed and offset; what a split along the keys adds, the simulation knows
            "cuda": {"random state": "16", "unused": "8"},
        },
    ),
    {
        # The gradient from sum() has no strides; the kernel wants them, unless it is one number.
        "contiguous gradient": f"{OUT}*min(1, B*H*N*d - 1)",
        "tiles of threads": f"threads*2*{_TILE}*{WIDE}",
        "half tiles of threads": f"threads*2*{_TILE}*itemsize*{HALF}",
        "row sums": f"{_ROWS}*{WIDE}",  # of the calling thread; the backend sees no other
    },
)

# The lse is kept only for gradients, and its rows are padded to 32.
EFFICIENT = _fused("sdpa efficient", "B*H*32*ceil(N/32)*4", Phase("attention", _OUT), {})

# cuDNN gives each gradient the layout of its input.
CUDNN = KernelModel(
    MemoryModel("sdpa cudnn forward", (Phase("attention", _OUT, {"cuda": _SEEDS}),)),
    MemoryModel(
        "sdpa cudnn training",
        (Phase("backward", {**_OUT, "lse": "B*H*N*4", **_GRADS}, {"cuda": _SEEDS}),),
    ),
)

# Math computes with these: q, k, v and so on at full width.
_QW, _KW, _VW = (f"B*H*{size}*{WIDE}" for size in ("N*d", "M*d", "M*dv"))
_OUTW, _SCORES = f"B*H*N*dv*{WIDE}", f"B*H*N*M*{WIDE}"
_COPIES = {
    f"wide {name}": f"{size}*{HALF}" for name, size in zip("qkv", (_QW, _KW, _VW), strict=True)
}
_SCALED = {"scaled q": _QW, "scaled k": _KW}
_SCALARS = {"cpu": {"scale": "8", "its copy": f"min({WIDE}, 8 - {WIDE})"}}
_BIAS = {"bias": "mask*itemsize"}  # mask: how many elements a bool mask has


# The scratch, invisible outside, of a softmax that is safe against rows of -inf.
_SAFE = {"scores of -inf": "B*H*N*M", "rows of them": "B*H*N", "zero": WIDE}


def _math_forward(kept: Mapping[str, str]) -> tuple[Phase, ...]:
    """The phases of math's forward; ``kept`` is what is alive only because backward wants it."""
    q_scaled = {**_COPIES, **_BIAS, "scaled q": _QW}
    causal = {"causal bias": f"causal*N*M*{WIDE}"}
    held = {**q_scaled, **causal}
    weights = {**held, **kept, "weights": _SCORES}
    narrow = {"narrow weights": f"B*H*N*M*itemsize*{HALF}"}
    return (
        Phase("mask to bias", {**_BIAS, "0 and -inf": "min(1, mask)*2*itemsize"}),
        Phase("scale q", q_scaled, _SCALARS),
        Phase("tril", {**q_scaled, "ones": "causal*N*M", "tril": "causal*N*M"}),
        Phase("to bias", {**held, "tril": "causal*N*M", "0 and -inf": f"causal*2*{WIDE}"}),
        Phase("scale k", {**held, "scaled k": _KW}, _SCALARS),
        Phase("scores", {**held, "scaled k": _KW, "scores": _SCORES}),
        Phase(
            "softmax",
            {**weights, "scores": _SCORES},
            {"cpu": _SAFE, "cuda": _SAFE},
        ),
        Phase("out", {**weights, **narrow, "wide out": _OUTW}),
        Phase("narrow out", {**weights, **narrow, "wide out": _OUTW, "out": f"{OUT}*{HALF}"}),
    )


_GRAD_V = {"wide v gradient": _VW, **LOSS}
_WEIGHTS_GRAD = {"weights": _SCORES, "weights gradient": _SCORES, **_GRAD_V}
_QK_GRADS = {"scaled q gradient": _QW, "scaled k gradient": _KW, **_GRAD_V}
_MATH_BACKWARD = (
    Phase(
        "out.sum()",
        {**_SCALED, **_OUT, "weights": _SCORES, "wide v": _COPIES["wide v"], "loss": "itemsize"},
    ),
    Phase(
        "weights gradient",
        {
            **_SCALED,
            **_WEIGHTS_GRAD,
            "wide v": _COPIES["wide v"],
            "wide gradient": f"{_OUTW}*{HALF}",
        },
        # The product copies the gradient from sum(), which has no strides, a head at a time,
        # unless all is too small for a library call.
        {"cpu": {"gradient of one head": f"N*dv*{WIDE}*(1 - {HALF})*min(1, N*M*dv//400)"}},
    ),
    Phase(
        "softmax backward",
        {**_SCALED, **_WEIGHTS_GRAD, "scores gradient": _SCORES},
        {"cuda": {"gradient times weights": _SCORES}},  # aten/src/ATen/native/cuda/SoftMax.cu
    ),
    Phase("scores backward", {**_SCALED, **_QK_GRADS, "scores gradient": _SCORES}),
    Phase("scale k backward", {**_QK_GRADS, "wide k gradient": _KW}, _SCALARS),
    Phase("scale q backward", {**_QK_GRADS, "wide q gradient": _QW}, _SCALARS),
    # k's and q's gradients follow v's to a half type, with less alive.
    Phase("narrow v gradient", {**_QK_GRADS, "v gradient": f"{V}*{HALF}"}),
)
_NO_MASK = {"causal": 0, "mask": 0}

MATH = KernelModel(
    MemoryModel("sdpa math forward", _math_forward({}), _NO_MASK),
    MemoryModel("sdpa math training", _math_forward({"scaled k": _KW}) + _MATH_BACKWARD, _NO_MASK),
)

KERNELS = (
    Kernel("sdpa-flash", flash, FLASH, equal_head_dims=True),
    Kernel("sdpa-efficient", efficient, EFFICIENT, devices=("cuda",)),
    Kernel("sdpa-cudnn", cudnn, CUDNN, devices=("cuda",)),
    Kernel("sdpa-math", math, MATH, mask=True),
)
