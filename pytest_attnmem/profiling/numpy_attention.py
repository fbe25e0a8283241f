"""Standard attention in NumPy, and its memory, which is quadratic in the sequence length."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import AttnMemError, BudgetError
from ..kernels.reference import standard_attention as reference
from ..symbols.sizes import as_sizes
from ..units import shown
from .theoretical_memory import lengths

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def standard_attention(
    Q: ArrayLike, K: ArrayLike, V: ArrayLike, mask: ArrayLike | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns ``softmax(Q @ K.T / sqrt(d)) @ V`` [..., N, dv] and the weights [..., N, M].

    The kernels are tested against it. It computes in the dtype of the inputs: float32 stays
    float32.

    Args:
        Q: [..., N, d].
        K: [..., M, d].
        V: [..., M, dv].
        mask: Broadcastable to [..., N, M]. Bools and integers are true for the keys that a query
            sees; floats are added to the scores. The output and the weights of a query that sees
            no key are zeros.

    Raises:
        BudgetError: an argument is not an array of numbers, or the shapes do not fit together.
        AttnMemError: numpy or torch, which the kernels need, is not installed.

    Vaswani et al., Attention Is All You Need, 2017 (arXiv:1706.03762), section 3.2.1.
    """
    _check_numpy()
    q, k, v = (_array(name, value) for name, value in (("Q", Q), ("K", K), ("V", V)))
    seen = None if mask is None else _array("mask", mask)
    _check_shapes(q.shape, k.shape, v.shape, None if seen is None else seen.shape)
    return reference(q, k, v, seen)


def measure_attention_memory(seq_len: int, d_model: int, batch_size: int = 1) -> dict[str, int]:
    """Runs ``standard_attention`` on random float32 Q, K and V [batch_size, seq_len, d_model].

    Returns bytes: ``input_memory`` of Q, K and V, ``attention_matrix_memory`` of the weights,
    ``output_memory``, and their sum ``total_memory``, the memory in use at the end. The memory in
    use before the end is higher: ``peak_memory`` is its peak above the inputs, by tracemalloc,
    including some KiB of the interpreter's objects.

    Raises:
        BudgetError: a size is not a whole number >= 1.
        AttnMemError: it does not fit in memory, or numpy or torch is not installed.
    """
    given = {"seq_len": seq_len, "d_model": d_model, "batch_size": batch_size}
    seq_len, d_model, batch_size = as_sizes("measure_attention_memory", given)
    _check_numpy()
    import numpy as np

    random = np.random.default_rng(0)
    try:
        inputs = [
            random.standard_normal((batch_size, seq_len, d_model), dtype=np.float32)
            for _ in range(3)
        ]
        with _traced() as peak:
            output, weights = standard_attention(*inputs)
            peak_memory = peak()
    except (MemoryError, ValueError, OverflowError) as error:
        # NumPy raises the last two for sizes that are far too large.
        if isinstance(error, AttnMemError):
            raise
        named = ", ".join(f"{name}={shown(size)}" for name, size in given.items())
        raise AttnMemError(
            f"measure_attention_memory({named}) does not fit in memory: {shown(error, 120)};"
            " estimate_attention_memory needs none"
        ) from error
    parts = _parts(sum(array.nbytes for array in inputs), weights.nbytes, output.nbytes)
    return {**parts, "peak_memory": peak_memory}


def profile_memory_scaling(
    seq_lengths: Iterable[int], d_model: int = 64
) -> dict[int, dict[str, int]]:
    """Returns seq_len → the bytes of :func:`measure_attention_memory`, for each length.

    Raises:
        BudgetError: a size is not a whole number >= 1, or no length is given.
        AttnMemError: a length does not fit in memory, or numpy or torch is not installed.
    """
    return {
        seq_len: measure_attention_memory(seq_len, d_model)
        for seq_len in lengths("profile_memory_scaling", seq_lengths)
    }


def estimate_attention_memory(seq_len: int, d_model: int, dtype_bytes: int = 4) -> dict[str, int]:
    """Returns the bytes of ``measure_attention_memory``, computed from the shapes.

    ``input_memory = 3*N*d*itemsize``, ``attention_matrix_memory = N*N*itemsize``,
    ``output_memory = N*d*itemsize``; ``total_memory`` is their sum. It is not a peak: softmax needs
    more than one matrix.

    Raises:
        BudgetError: a size is not a whole number >= 1; packed dtypes of half a byte are refused.
    """
    given = {"seq_len": seq_len, "d_model": d_model, "dtype_bytes": dtype_bytes}
    N, d, itemsize = as_sizes("estimate_attention_memory", given)
    return _parts(3 * N * d * itemsize, N * N * itemsize, N * d * itemsize)


def _parts(inputs: int, matrix: int, output: int) -> dict[str, int]:
    return {
        "input_memory": inputs,
        "attention_matrix_memory": matrix,
        "output_memory": output,
        "total_memory": inputs + matrix + output,
    }


@contextmanager
def _traced() -> Iterator[Callable[[], int]]:
    """Traces memory; yields a function that returns the peak so far, above the start."""
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        if not already:
            tracemalloc.stop()


def _check_numpy() -> None:
    """Check that NumPy is installed, and import it: measured memory does not count its modules."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as error:
        raise AttnMemError(
            f"standard_attention needs {error.name}, which is not installed;"
            " pip install 'pytest-attnmem[torch]'"
        ) from error


def _array(name: str, value: ArrayLike) -> NDArray[Any]:
    import numpy as np

    try:
        array = np.asarray(value)
        if array.dtype.kind in "fiub":
            return array
        found = f"an array of {array.dtype}"
    except Exception as error:  # ragged lists, tensors on a GPU or with a gradient
        found = shown(error, 120)
    raise BudgetError(f"standard_attention needs {name} to be an array of numbers, got {found}")


def _check_shapes(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], mask: tuple[int, ...] | None
) -> None:
    import numpy as np

    given = f"{list(q)}, {list(k)} and {list(v)}"
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2] or 0 in (q[-1], k[-2]):
        raise BudgetError(
            "standard_attention needs Q [..., N, d], K [..., M, d] and V [..., M, dv] with d and M"
            f" >= 1, got {given}"
        )
    try:
        scores = (*np.broadcast_shapes(q[:-2], k[:-2]), q[-2], k[-2])
        np.broadcast_shapes(scores[:-2], v[:-2])
    except ValueError:
        raise BudgetError(
            f"standard_attention needs leading dimensions of Q, K and V that broadcast, got {given}"
        ) from None
    if mask is None:
        return
    try:
        fits = np.broadcast_shapes(mask, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise BudgetError(
            "standard_attention needs a mask that broadcasts to [..., N, M] ="
            f" {list(scores)}, got {list(mask)}"
        )
