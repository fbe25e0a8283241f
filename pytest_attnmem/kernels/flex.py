"""PyTorch's flex_attention, compiled; its dense fallback is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ..budgets.memory_model import KernelModel, MemoryModel, Phase
from ..errors import first_line
from .input_checks import check_inputs

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask  # since PyTorch 2.5

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_DENSE = (
    "flex runs compiled only, and something keeps torch.compile from it here: its dense fallback"
    " makes the N×M scores"
)
BLOCK = 128  # positions in a block of the tables that say which tiles to visit


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    score_mod: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor] | None = None,
    block_mask: BlockMask | None = None,
) -> Tensor:
    """Softmax attention in a program compiled for it → [B, H, N, dv].

    It is compiled once for each set of sizes and options, which takes seconds: measure with
    ``warmup=1``. On the CPU there is no backward pass, and compiling needs a C++ compiler.

    Run without the compiler, flex_attention makes the scores in full, O(N·M). That happens under
    ``torch.compiler.set_stance("force_eager")`` and under a dispatch mode, such as those that
    explain a failure or simulate a device; here it is an error.

    Args:
        q: [B, H, N, d]; float16, bfloat16 or float32.
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only the keys 0 … i; tiles above the diagonal are skipped.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        score_mod: ``(score, b, h, i, j) → score``, as flex_attention takes it.
        block_mask: Which tiles to visit, as flex_attention takes it, in place of ``causal``; not in
            the memory model.

    Raises:
        ValueError: the inputs do not fit together, both masks are given, or, on the CPU, PyTorch's
            template would read beyond the keys.
        RuntimeError: it would not be compiled, or the compiler refuses.

    O(N·d) memory, O(N²·d) time: Dong et al., 2024 (arXiv 2412.05496), Flex Attention: A Programming
    Model for Generating Optimized Attention Kernels.
    """
    check_inputs(q, k, v)
    if q.dtype not in DTYPES:
        names = ", ".join(str(dtype) for dtype in DTYPES)
        raise ValueError(f"q must be of one of {names} in flex, got {q.dtype}")
    if causal and block_mask is not None:
        raise ValueError("causal and block_mask exclude each other in flex; put both in the mask")
    wanted = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if q.device.type == "cpu" and wanted:
        raise RuntimeError("flex has no backward pass on cpu: call it under torch.no_grad()")
    # Dynamo gives way to a dispatch mode, and would go on to after it has ended.
    if is_in_torch_dispatch_mode():
        raise RuntimeError(_DENSE)
    if block_mask is None:
        block_mask = _tables(q.shape[2], k.shape[2], causal, q.device)
    if q.device.type == "cpu":
        _check_reads(q.shape[3], k.shape[2], block_mask.BLOCK_SIZE[1])
    try:
        with torch._dynamo.config.patch(recompile_limit=2**16, accumulated_recompile_limit=2**16):
            out: Tensor = torch.compile(_flex, dynamic=False, fullgraph=True)(
                q, k, v, score_mod, block_mask, scale
            )
    except (torch._dynamo.exc.TorchDynamoException, torch._inductor.exc.InductorError) as error:
        raise RuntimeError(f"flex_attention's compiler refuses: {_reason(error)}") from None
    return out


def _check_reads(d: int, M: int, block: int) -> None:
    """Refuses the sizes at which PyTorch's template for the CPU reads rows beyond the keys.

    CppMicroGemmFP32Vec (torch/_inductor/codegen/cpp_micro_gemm.py, torch 2.13) multiplies 16 keys
    at a time. Where 8 are left over it still takes 16, if a vector of 8 floats (AVX2) divides d and
    d < 24. It reads 8 rows too many; where one block holds all keys, their products overwrite the
    rows' maxima and sums. Seen with rows of NaN behind the keys: NaN in 8 rows of out for all three
    dtypes at d = 8 or 16 and M = 8 or 40; nothing at M = 4, 12, 32 or 33, nor at d = 4, 12, 24 or
    32. With AVX-512 it does not happen; sizes are refused all the same, for programs that move.
    """
    block = min(block, M)
    if d in (8, 16) and any(keys % 16 == 8 for keys in (block, (M - 1) % block + 1)):
        raise ValueError(
            f"flex on cpu cannot take d={d} with M={M}: where d is 8 or 16 and a block of keys is 8"
            " longer than a multiple of 16, PyTorch's compiled flex_attention reads rows beyond the"
            " keys, and returns NaN or wrong rows; pad q and k with zeros to d=24 and pass scale"
        )


def _flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score_mod: Callable[..., Tensor] | None,
    block_mask: BlockMask,
    scale: float | None,
) -> Tensor:
    if not torch.compiler.is_compiling():
        raise RuntimeError(_DENSE)
    from torch.nn.attention.flex_attention import flex_attention

    out: Tensor = flex_attention(
        q, k, v, score_mod, block_mask, scale, kernel_options=_options(q.device)
    )
    return out


def _options(device: torch.device) -> Any:
    """Returns the options of the template for many queries; templates for few hold partial results.

    That of the CPU does not even compile without tables of full blocks; it is passed over where its
    partitions do not hold whole blocks.
    """
    return {"PARTITION_SIZE": 1} if device.type == "cpu" else {"FORCE_USE_FLEX_ATTENTION": True}


def _reason(error: BaseException) -> str:
    """Returns the first cause of an error, in a line."""
    while cause := getattr(error, "inner_exception", None) or error.__cause__:
        error = cause
    return f"{type(error).__name__}: {first_line(error)}"


def _tables(N: int, M: int, causal: bool, device: torch.device) -> BlockMask:
    """Returns the blocks of keys of each block of queries, and the reverse: O(N + M)."""
    rows, columns = -(-N // BLOCK), -(-M // BLOCK)

    def count(first: int, last: int, step: int = 1) -> Tensor:
        return torch.arange(first, last, step, dtype=torch.int32, device=device)

    if causal:
        kv_number = count(1, rows + 1).clamp_(max=columns)  # [rows]
        q_number = count(rows, rows - columns, -1).clamp_(min=0)  # [columns]
        # Those of a block of keys begin at the diagonal.
        q_index = count(0, rows + columns - 1).as_strided((columns, rows), (1, 1))
    else:
        kv_number = torch.full((rows,), columns, dtype=torch.int32, device=device)  # [rows]
        q_number = torch.full((columns,), rows, dtype=torch.int32, device=device)  # [columns]
        q_index = count(0, rows).expand(columns, rows)
    kv_index = count(0, columns).expand(rows, columns)
    from torch.nn.attention.flex_attention import BlockMask

    return BlockMask(
        seq_lengths=(N, M),
        kv_num_blocks=kv_number[None, None],
        kv_indices=kv_index[None, None],
        full_kv_num_blocks=None,
        full_kv_indices=None,
        q_num_blocks=q_number[None, None],
        q_indices=q_index[None, None],
        full_q_num_blocks=None,
        full_q_indices=None,
        BLOCK_SIZE=(BLOCK, BLOCK),
        mask_mod=_not_after if causal else _any,
    )


def _not_after(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def _any(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j >= 0


_OUT = {"out": "B*H*N*dv*itemsize"}
_TABLES = {
    "blocks of keys": f"4*(ceil(N/{BLOCK}) + ceil(M/{BLOCK}))",
    "blocks of queries": (
        f"4*(ceil(N/{BLOCK}) + ceil(M/{BLOCK}) + min(1, causal)*(ceil(M/{BLOCK}) - 1))"
    ),
}
_ROWS = "B*H*N*4"

# From the template in torch/_inductor/codegen/cpp_flex_attention_template.py.
_TILE_Q, _TILE_K = f"min({BLOCK}, N)", f"min({BLOCK}, M)"
_CPU = {
    "scores, sums and out of a tile": f"threads*4*{_TILE_Q}*({_TILE_K} + 2 + dv)",
    "scores in the inputs' dtype": f"threads*itemsize*{_TILE_Q}*{_TILE_K}",
    "room for packed keys": "B*H*M*d*itemsize",
    "room for packed values": "B*H*M*dv*itemsize",
    "transposed keys": f"threads*{_TILE_K}*d*itemsize",
    "padded queries": f"threads*{_TILE_Q}*d*itemsize",
}
_FORWARD = (
    Phase(
        "forward",
        {**_OUT, **_TABLES},
        {"cpu": _CPU, "cuda": {"lse": _ROWS, "row maxima": _ROWS}},
    ),
)
_BACKWARD = (
    Phase(
        "backward",
        {
            **{"loss": "itemsize", "loss gradient": "itemsize"},
            **_OUT,
            **_TABLES,
            "lse": _ROWS,
            "q gradient": "B*H*N*d*itemsize",
            "k gradient": "B*H*M*d*itemsize",
            "v gradient": "B*H*M*dv*itemsize",
        },
        {"cuda": {"delta": _ROWS}},
    ),
)

MODEL = KernelModel(
    forward=MemoryModel("flex forward", _FORWARD, {"causal": 0}),
    training=MemoryModel("flex training", _FORWARD + _BACKWARD, {"causal": 0}),
)
