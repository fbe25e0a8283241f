"""The empirical sweep: measured peaks of attention kernels by sequence length, with the theory."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..backends.primed_backend import PrimedBackend, open_primed
from ..errors import AttnMemError
from ..kernels import Kernel
from ..kernels.registry import kernel_named
from ..measurement.qkv_inputs import dtype_of, qkv
from ..symbols.attention_shape import AttentionShape
from ..symbols.sizes import as_sizes
from .memory_tracker import peak_of
from .theoretical_memory import NAMES, above_inputs, lengths, shape_of

#: The text in the CSV in place of a peak if memory ran out.
OOM: Final = "OOM"


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of one kernel's forward pass at one length, in bytes above the inputs."""

    measured_bytes: int | None
    """Requested bytes; ``None`` if memory ran out."""
    theoretical_bytes: int
    """Bytes of all tensors alive at the peak, by the kernel's model."""
    out_of_memory: str | None = None
    """The request that failed, as text; ``None`` if memory did not run out."""


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """The results of a sweep at one length."""

    seq_len: int
    input_bytes: int
    """Bytes of q, k and v."""
    peaks: Mapping[str, Peak]
    """Kernel → its peak."""

    def columns(self) -> dict[str, int | str]:
        """Returns the row of the CSV.

        Its columns are ``seq_len``, ``input_memory_bytes``, the measured ``standard_memory_bytes``
        of each kernel, which is ``OOM`` if memory ran out, and ``standard_theoretical_bytes``.
        """
        named = {column(kernel): peak for kernel, peak in self.peaks.items()}
        return {
            "seq_len": self.seq_len,
            "input_memory_bytes": self.input_bytes,
            **{
                f"{name}_memory_bytes": OOM if peak.measured_bytes is None else peak.measured_bytes
                for name, peak in named.items()
            },
            **{f"{name}_theoretical_bytes": peak.theoretical_bytes for name, peak in named.items()},
        }


def column(kernel: str) -> str:
    """Returns the name of a kernel in columns: ``linear_bidir``, ``sdpa_flash``."""
    return dict(NAMES).get(kernel, kernel.replace("-", "_"))


def memory_scaling(
    seq_lengths: Iterable[int],
    *,
    kernels: Sequence[str] = ("standard", "linear", "linear-causal"),
    batch_size: int = 4,
    num_heads: int = 8,
    head_dim: int = 64,
    dtype: Any = "float16",
    backend: str | None = None,
) -> tuple[ScalingRow, ...]:
    """Measures a forward pass of each kernel at each length, on q, k, v [B, H, N, d].

    If memory runs out, the row says so and the sweep continues; other errors are raised.
    ``backend`` is a name such as ``simulated:H100`` or ``cuda``; the default is the machine's
    device. A CPU may promise more memory than it has, and the system then ends the process:
    simulate first.

    Raises:
        BudgetError: a size is not a whole number >= 1, or a name is unknown.
        BackendUnavailable: the backend cannot measure here.
        AttnMemError: a pass could not be measured; the text says why.
    """
    given = {"batch_size": batch_size, "num_heads": num_heads, "head_dim": head_dim}
    B, H, d = as_sizes("memory_scaling", given)
    found = [kernel_named(name) for name in kernels]
    found_dtype = dtype_of(dtype, "memory_scaling")
    shapes = [shape_of(B, H, N, d, found_dtype) for N in lengths("memory_scaling", seq_lengths)]
    primed = open_primed(backend or "auto")
    return tuple(
        ScalingRow(
            shape.N,
            shape.q_bytes + shape.k_bytes + shape.v_bytes,
            {kernel.name: _peak(primed, kernel, shape, found_dtype) for kernel in found},
        )
        for shape in shapes
    )


def _peak(primed: PrimedBackend, kernel: Kernel, shape: AttentionShape, dtype: Any) -> Peak:
    def forward() -> Any:
        device = primed.backend.device
        inputs = qkv(shape.B, shape.H, shape.N, shape.d, dtype=dtype, device=device)
        return kernel.attention(*inputs, causal=kernel.always_causal)

    seen, _ = primed.run(forward)
    theoretical = above_inputs(kernel, shape)
    if seen.out_of_memory is not None:
        return Peak(None, theoretical, seen.out_of_memory)
    return Peak(peak_of(seen), theoretical)


def save_csv(rows: Iterable[ScalingRow], path: str | Path) -> None:
    """Writes the rows to a CSV file, one line each.

    Raises:
        AttnMemError: no row is given, rows have different kernels, or the file cannot be written.
    """
    lines = [row.columns() for row in rows]
    if not lines:
        raise AttnMemError(f"cannot write {path}: there is no row")
    if any(line.keys() != lines[0].keys() for line in lines):
        raise AttnMemError(f"cannot write {path}: the rows have different kernels")
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, lines[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
    except OSError as error:
        raise AttnMemError(f"cannot write {path}: {error.strerror or error}") from error
