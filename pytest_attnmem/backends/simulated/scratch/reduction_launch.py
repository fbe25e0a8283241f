"""The launch of a reduction, and its global buffers (aten/src/ATen/native/cuda/Reduce.cuh)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ....profiles import DeviceProfile
from .op_plan import AllocationPlan, OpCall
from .plan_parts import HALVES, accumulate_type, temporary
from .tensor_iterator import Reduction, reduction

if TYPE_CHECKING:
    import torch

_WARP: Final = 32
_THREADS: Final = 512  # 256 for complex double
_VALUES: Final = (16, 256)  # the least and most values per thread if blocks share an output


@dataclass(frozen=True, slots=True)
class ReductionKernel:
    """The template parameters of a reduction kernel."""

    partial: int  # bytes of a partial result
    unroll: int = 4  # vt0, and the width of vector loads
    threads: int = _THREADS
    into_output: bool = True  # True if partial results may be stored in the output


def sum_kernel(dtype: torch.dtype) -> ReductionKernel:
    """Returns the kernel that sums elements of a dtype; the partial sums of halves are wider."""
    return ReductionKernel(accumulate_type(dtype).itemsize, into_output=dtype not in HALVES)


def blocks_plan(
    loop: Reduction, kernel: ReductionKernel, profile: DeviceProfile, name: str = ""
) -> AllocationPlan:
    """Plans the buffers of a reduction (``gpu_reduce_kernel``)."""
    if loop.numel == 0:
        return ()
    within: list[AllocationPlan] = []
    for part in loop.parts():
        buffer, nbytes = _launch(part, kernel, profile)
        semaphores = temporary(name + "semaphores", nbytes)
        within.append(temporary(name + "partial results", buffer, semaphores))
    return temporary(name + "accumulation", _accumulation(loop, kernel), *within)


def row_plan(
    call: OpCall,
    count: int,
    itemsize: int,
    out: Sequence[int],
    kernel: ReductionKernel,
    stride: int = 1,
) -> AllocationPlan:
    """Plans the buffers of the reduction of one row to a number of each of these sizes."""
    loop = reduction((count,), (stride,), itemsize, out, (0,), False)
    return blocks_plan(loop, kernel, call.profile)


def _accumulation(loop: Reduction, kernel: ReductionKernel) -> int:
    """Returns the bytes kept between the parts of a loop too long for 32-bit indices."""
    if kernel.into_output or loop.indexed_by_32_bits() or loop.out_itemsize >= kernel.partial:
        return 0
    extents = (size * stride for size, stride in zip(loop.shape, loop.out, strict=True))
    return max(loop.out_itemsize, *extents) // loop.out_itemsize * kernel.partial


def _launch(loop: Reduction, kernel: ReductionKernel, profile: DeviceProfile) -> tuple[int, int]:
    """Returns the bytes of partial results and of semaphores, by ``setReduceConfig``."""
    results = loop.results
    inputs = loop.numel // results
    rank, reduced = len(loop.shape), loop.reduced
    across = reduced == rank or loop.input[0] < loop.input[reduced]  # along the fastest dimension
    fastest = (loop.input[0] if across else loop.input[reduced]) if rank else loop.itemsize
    width, height = (inputs, results) if across else (results, inputs)
    vector = 1
    if fastest == loop.itemsize:
        if across and width >= 128 and reduced == 1:
            width //= kernel.unroll
        elif not across:
            vector = _output_vector(loop)
            width //= vector
    block_x, block_y = _block(width, height, kernel.threads // vector)
    step_input, step_output = (block_x, 1) if across else (1, block_x)
    split_warps = _ceil(inputs, step_input) >= min(block_y * 16, _VALUES[1])
    if split_warps:
        step_input *= block_y
    else:
        step_output *= block_y
    grid = _ceil(results // vector, step_output)
    resident = profile.architecture.threads_per_multiprocessor // (block_x * block_y)
    target = profile.multiprocessors * resident
    values = _ceil(inputs, step_input)
    least, most = _VALUES
    if not (split_warps and values >= most and grid <= target):
        return 0, 0
    blocks = max(min(_ceil(target, grid), _ceil(values, least)), _ceil(values, most))
    if blocks <= 1:
        return 0, 0
    lanes = 1 if across else block_x * vector
    return kernel.partial * results * blocks * lanes, 4 * grid


def _output_vector(loop: Reduction) -> int:
    """Returns the number of outputs per thread, which depends on the alignment of loads."""
    vector = 4
    first = loop.reduced
    strides = [s for dim, s in enumerate(loop.input) if dim != first]
    for count in (loop.offset, loop.shape[first] * loop.itemsize, *strides):
        while count // loop.itemsize % vector:
            vector //= 2
    return vector


def _block(width: int, height: int, threads: int) -> tuple[int, int]:
    """Returns the width and height of a block, in threads (``set_block_dimension``)."""
    wide, high = (power_of_two(size) if size < threads else threads for size in (width, height))
    block_y = min(high, threads // min(wide, _WARP))
    return min(wide, threads // block_y), block_y


def power_of_two(size: int) -> int:
    """Returns the largest power of two up to ``size``, and at least 1."""
    return 1 << max(size.bit_length() - 1, 0)


def _ceil(a: int, b: int) -> int:
    return -(-a // b)
