"""The memory of attention from the shapes alone: the kernels' closed forms at given sizes."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BudgetError
from ..kernels import Kernel
from ..kernels.registry import kernel_named
from ..symbols.attention_shape import AttentionShape, Source, gather
from ..symbols.sizes import as_size, as_sizes, itemsize_of
from ..units import shown

#: Each bundled kernel of the notebook, and the notebook's name for it.
NAMES = (
    ("standard", "standard"),
    ("linear", "linear_bidir"),
    ("linear-causal", "linear_causal"),
)


def theoretical_memory(
    batch_size: int, num_heads: int, seq_len: int, head_dim: int, dtype: object = "fp16"
) -> dict[str, int]:
    """Returns the bytes of attention on [batch_size, num_heads, seq_len, head_dim], by formula.

    ``inputs`` are q, k and v. ``standard_peak``, ``linear_bidir_peak`` and ``linear_causal_peak``
    are the peaks of a forward pass by the kernels' models: the inputs and all tensors alive with
    them, for standard attention scores and weights, two N×N matrices, and the output. Scratch of a
    device's kernels is not included. The largest tensors have keys of their own:
    ``attention_matrix`` (``B*H*N*N*itemsize``), ``linear_bidir_state`` (``B*H*d*d*itemsize``) and
    ``linear_causal_state`` (``B*H*N*d*d*itemsize``).

    Raises:
        BudgetError: a size is not a whole number >= 1, or the dtype is not known.
    """
    given = {
        "batch_size": batch_size, "num_heads": num_heads, "seq_len": seq_len, "head_dim": head_dim
    }  # fmt: skip
    B, H, N, d = as_sizes("theoretical_memory", given)
    shape = shape_of(B, H, N, d, dtype)
    inputs = shape.q_bytes + shape.k_bytes + shape.v_bytes
    state = B * H * d * d * shape.itemsize
    peaks = {
        f"{name}_peak": inputs + above_inputs(kernel_named(kernel), shape) for kernel, name in NAMES
    }
    return {
        "inputs": inputs,
        "attention_matrix": shape.scores_bytes,
        "linear_bidir_state": state,
        "linear_causal_state": N * state,
        **peaks,
    }


def shape_of(B: int, H: int, N: int, d: int, dtype: object) -> AttentionShape:
    """Returns the symbols of attention at these sizes.

    Raises:
        BudgetError: the dtype is not known.
    """
    known = {"B": B, "H": H, "N": N, "d": d, "itemsize": itemsize_of(dtype)}
    return gather([Source("the sizes", known)])


def lengths(function: str, seq_lengths: Iterable[int]) -> list[int]:
    """Returns the sequence lengths in their order.

    Raises:
        BudgetError: there are none, or one is not a whole number >= 1.
    """
    if isinstance(seq_lengths, str) or not isinstance(seq_lengths, Iterable):
        raise BudgetError(
            f"{function} needs seq_lengths to be a list of sizes, such as [512, 1024],"
            f" got {shown(seq_lengths)}"
        )
    found = [as_size(function, "seq_len", seq_len) for seq_len in seq_lengths]
    if not found:
        raise BudgetError(f"{function} needs at least one of seq_lengths, got none")
    return found


def above_inputs(kernel: Kernel, shape: AttentionShape) -> int:
    """Returns the peak of the tensors of a forward pass, without the inputs."""
    causal = {"causal": int(kernel.always_causal)}
    return kernel.model.forward.peak(AttentionShape({**causal, **shape.symbols}))
