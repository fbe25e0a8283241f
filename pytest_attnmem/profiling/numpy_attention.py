"""Standard attention in NumPy, and its memory: quadratic in the length of the sequence."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import AttnMemError, BudgetError
from ..kernels.reference import standard_attention as reference
from ..units import shown
from .sizes import lengths, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def standard_attention(
    Q: ArrayLike, K: ArrayLike, V: ArrayLike, mask: ArrayLike | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """``softmax(Q @ K.T / sqrt(d)) @ V`` → output [..., N, dv] and weights [..., N, M].

    The reference that the kernels are held to. Everything is computed in the dtype of the inputs:
    float32 stays float32.

    Args:
        Q: [..., N, d].
        K: [..., M, d].
        V: [..., M, dv].
        mask: Broadcastable to [..., N, M]: bool or integers, true where a key may be seen; floats
            are added to the scores. A query that may see nothing gets zeros, as do its weights.

    Raises:
        BudgetError: the arrays are none, or their shapes do not fit together.
        AttnMemError: numpy or torch, which the kernels need, is not installed.

    Vaswani et al., Attention Is All You Need, 2017 (arXiv:1706.03762), section 3.2.1.
    """
    _check_numpy()
    q, k, v = (_array(name, value) for name, value in (("Q", Q), ("K", K), ("V", V)))
    seen = None if mask is None else _array("mask", mask)
    _check_shapes(q.shape, k.shape, v.shape, None if seen is None else seen.shape)
    return reference(q, k, v, seen)


def measure_attention_memory(seq_len: int, d_model: int, batch_size: int = 1) -> dict[str, int]:
    """Run ``standard_attention`` on random float32 Q, K and V [batch_size, seq_len, d_model].

    Returns bytes: ``input_memory`` of Q, K and V, ``attention_matrix_memory`` of the weights,
    ``output_memory``, and their sum ``total_memory``, which is what is there at the end. While it
    runs there is more: ``peak_memory`` is the highest level above the inputs that tracemalloc saw,
    the interpreter's own objects, some KiB, included.

    Raises:
        BudgetError: a size is no whole number of at least 1.
        AttnMemError: it does not fit in memory, or numpy or torch is not installed.
    """
    sizes = {"seq_len": seq_len, "d_model": d_model, "batch_size": batch_size}
    seq_len, d_model, batch_size = whole("measure_attention_memory", **sizes)
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
    except (MemoryError, ValueError, OverflowError) as error:  # the latter: for numpy, too
        if isinstance(error, AttnMemError):
            raise
        named = ", ".join(f"{name}={shown(size)}" for name, size in sizes.items())
        raise AttnMemError(
            f"measure_attention_memory({named}) does not fit in memory: {shown(error, 120)};"
            " estimate_attention_memory needs none"
        ) from error
    parts = _parts(sum(array.nbytes for array in inputs), weights.nbytes, output.nbytes)
    return {**parts, "peak_memory": peak_memory}


def profile_memory_scaling(
    seq_lengths: Iterable[int], d_model: int = 64
) -> dict[int, dict[str, int]]:
    """What :func:`measure_attention_memory` finds at each length: seq_len → its bytes.

    Raises:
        BudgetError: a size is no whole number of at least 1, or there is no length.
        AttnMemError: one does not fit in memory, or numpy or torch is not installed.
    """
    return {
        seq_len: measure_attention_memory(seq_len, d_model)
        for seq_len in lengths("profile_memory_scaling", seq_lengths)
    }


def estimate_attention_memory(seq_len: int, d_model: int, dtype_bytes: int = 4) -> dict[str, int]:
    """The bytes of ``measure_attention_memory`` without running it, from the shapes.

    ``input_memory = 3*N*d*itemsize``, ``attention_matrix_memory = N*N*itemsize``,
    ``output_memory = N*d*itemsize``; ``total_memory`` is their sum, and no peak: while softmax
    runs there is more than one matrix.

    Raises:
        BudgetError: a size is no whole number of at least 1; packed dtypes of half a byte are none.
    """
    N, d, itemsize = whole(
        "estimate_attention_memory", seq_len=seq_len, d_model=d_model, dtype_bytes=dtype_bytes
    )
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
    """Trace the body's memory; yields what tells its highest level so far, above the start."""
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
