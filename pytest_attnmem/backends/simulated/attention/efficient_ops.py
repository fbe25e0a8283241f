"""Rules for memory-efficient attention's operators.

Source, in ``aten/src/ATen/native/transformers/cuda/``: ``attention.cu``,
``attention_backward.cu`` and, in ``mem_eff_attention/``, ``kernel_forward.h`` and
``kernel_backward.h``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ....profiles import DeviceProfile
from ..scratch.op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary, argument
from ..scratch.plan_parts import dense_bytes, temporaries, temporary
from .layout import FLOAT, Sizes, divide_up, round_up, rows_contiguous, sizes_of


class BackwardKernel(NamedTuple):
    """A kernel with blocks of ``rows`` queries and ``columns`` keys, for a limited head dim."""

    rows: int
    columns: int
    longest: int
    shared_bytes: int  # that a block asks for: the most of its dtypes, with dropout and without
    architecture: int  # 50, 70, 75 or 80
    half: bool
    drops: bool = True
    only_on: tuple[int, ...] = ()

    @property
    def sums_rows(self) -> bool:
        """Returns True if the kernel computes the row sums of dO·O (``kKernelComputesDelta``)."""
        return self.half and (self._in_registers or self.architecture != 70)

    @property
    def accumulates_keys(self) -> bool:
        """Returns True if dK and dV are added up in float in memory (``kNeedsAccumGradK``)."""
        return self.half and not self._in_registers

    @property
    def accumulates_queries(self) -> bool:
        """Returns True if dQ is added up in float in memory (``kNeedsAccumGradQ``)."""
        return self.half or self.splits_keys

    @property
    def splits_keys(self) -> bool:
        """Returns True if blocks of keys run at the same time (``kEnableSplitKeys``)."""
        return self.architecture >= 70

    @property
    def _in_registers(self) -> bool:
        return self.longest <= self.rows


def select(
    profile: DeviceProfile, *, half: bool, longest: int, drops: bool
) -> BackwardKernel | None:
    """Returns the kernel that the device runs for rows of that length; None if none fits."""
    major, minor = profile.compute_capability
    capability = 10 * major + minor
    architecture = next(one for one in (80, 75, 70, 50) if capability >= one)
    for kernel in _KERNELS[architecture, half]:
        if (
            kernel.longest >= longest
            and (kernel.drops or not drops)
            and kernel.shared_bytes <= profile.architecture.shared_bytes_per_block
            and (not kernel.only_on or capability in kernel.only_on)
        ):
            return kernel
    return None


def _kernels(
    architecture: int, half: bool, small: int, shared: int, large: int | None = None, /
) -> tuple[BackwardKernel, ...]:
    """Returns kernels with blocks of 64 queries, and before them with blocks of 128 if any."""
    kernels = [BackwardKernel(64, 64, longest, small, architecture, half) for longest in (32, 64)]
    for longest in (128, _ANY):
        if large is not None:
            kernels.append(BackwardKernel(128, 64, longest, large, architecture, half))
        kernels.append(BackwardKernel(64, 64, longest, shared, architecture, half))
    return tuple(kernels)


_ANY: Final = 65536
_AMPERE_HALF: Final = _kernels(80, True, 52480, 34048, 60928)
_KERNELS: Final[Mapping[tuple[int, bool], tuple[BackwardKernel, ...]]] = MappingProxyType(
    {
        (80, True): (
            *_AMPERE_HALF[:2],
            BackwardKernel(128, 64, 96, 91648, 80, True, drops=False, only_on=(86, 89)),
            BackwardKernel(128, 128, 128, 162304, 80, True),
            *_AMPERE_HALF[3:],
        ),
        (80, False): _kernels(80, False, 53504, 67840, 121344),
        (75, True): _kernels(75, True, 27904, 27904, 54784),
        (75, False): _kernels(75, False, 37120, 37120),
        (70, True): _kernels(70, True, 25088, 25088, 50176),
        (70, False): _kernels(70, False, 37120, 37120),
        (50, True): _kernels(50, True, 19232, 19232),
        (50, False): _kernels(50, False, 37120, 37120),
    }
)


_MAX_BATCHES: Final = 65535  # more are computed in chunks, which is not modelled
_MASK_STEP: Final = 16  # rows of a mask's gradient begin at multiples of so many elements
_UNUSED_STATE: Final = (2, 14)  # allocates the random state that no dropout uses on the device
_KEYS_AT_ONCE: Final = 128  # a forward adds up in memory if a row is longer


def forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_scaled_dot_product_efficient_attention``: q, k and v are [B, H, N, d]."""
    return _forward(call, sizes_of(*call.args[:3], heads_first=True))


def unscaled_forward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_efficient_attention_forward``: q, k and v are [B, N, H, d]."""
    return _forward(call, sizes_of(*call.args[:3], heads_first=False))


def _forward(call: OpCall, sizes: Sizes) -> AllocationPlan | None:
    """Plans the random state, the output, the log-sum-exp and an accumulator.

    The seed and the offset of the random state are on the host, but from 2.14 on without dropout.
    """
    if sizes.B > _MAX_BATCHES:
        return None
    unused = call.version >= _UNUSED_STATE and not argument(call, "dropout_p")
    state: AllocationPlan = (Output(2), Output(3)) if unused else ()
    plan: AllocationPlan = (*state, Output(0), Output(1))
    half = call.args[0].element_size() == 2
    if half and max(sizes.d, sizes.dv) > _KEYS_AT_ONCE:
        plan += (Temporary("output in float", FLOAT * sizes.B * sizes.N * sizes.H * sizes.dv),)
    return plan


def backward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_scaled_dot_product_efficient_attention_backward``."""
    bias = call.args[4] if argument(call, "grad_input_mask")[3] else None
    return _backward(call, call.args[9], bias, heads_first=True)


def unscaled_backward(call: OpCall) -> AllocationPlan | None:
    """Plans ``_efficient_attention_backward``; sequences of several lengths are not modelled."""
    limited = argument(call, "num_splits_key") is not None or argument(call, "window_size")
    if limited or call.args[6] is not None or argument(call, "shared_storage_dqdkdv"):
        return None
    bias = call.args[4] if call.args[15] else None
    return _backward(call, call.args[11], bias, heads_first=False)


def _backward(
    call: OpCall, dropout: float, bias: Any | None, *, heads_first: bool
) -> AllocationPlan | None:
    """Plans the gradients, the row sums of dO·O, and the accumulators of concurrent blocks.

    Each head of a group has its own dK and dV.
    """
    grad, sizes = call.args[0], sizes_of(*call.args[1:4], heads_first=heads_first)
    half, longest = grad.element_size() == 2, max(sizes.d, sizes.dv)
    kernel = select(call.profile, half=half, longest=longest, drops=dropout > 0)
    if sizes.B > _MAX_BATCHES or kernel is None:
        return None
    steps: list[Step] = []
    if not rows_contiguous(grad, heads_first=heads_first):
        steps.append(Temporary("dO as rows", dense_bytes(grad)))
    steps += [Output(0), Output(1), Output(2)]
    if bias is not None:
        rows = dense_bytes(bias) // bias.shape[-1]
        steps.append(Output(3, rows * round_up(bias.shape[-1], _MASK_STEP)))
    if sizes.Hkv != sizes.H:
        rows = sizes.B * sizes.M * sizes.H * grad.element_size()
        steps += [Temporary("dK of each head", rows * sizes.d)]
        steps += [Temporary("dV of each head", rows * sizes.dv)]
    steps += _row_sums(sizes, kernel, half=half)
    workspace = _workspace(call, sizes, kernel)
    if workspace:
        steps.append(Temporary("workspace", workspace))
    return (*steps, Free("row sums"))


def _row_sums(sizes: Sizes, kernel: BackwardKernel, *, half: bool) -> AllocationPlan:
    """Plans ``delta``: by the kernel itself, or as the row sums of dO·O in float."""
    rows = FLOAT * sizes.B * sizes.H * sizes.N
    sums: AllocationPlan = (Temporary("row sums", rows),)
    if kernel.sums_rows:
        return sums
    if sizes.H > 1 and sizes.N > 1:  # they are reordered
        sums = temporary("row sums by query", rows, sums)
    names = (*(("O in float", "dO in float") if half else ()), "dO·O")
    return temporaries(dict.fromkeys(names, rows * sizes.dv), sums)


def _workspace(call: OpCall, sizes: Sizes, kernel: BackwardKernel) -> int:
    """Returns the bytes of float accumulators of dK, dV and dQ (``Params::workspace_size``)."""
    elements = 0
    if kernel.accumulates_keys:
        parts = _key_splits(call, sizes, kernel)
        columns = round_up(sizes.d, kernel.rows) + round_up(sizes.dv, kernel.rows)
        elements += parts * kernel.columns * columns
    if kernel.accumulates_queries:
        tiles = divide_up(sizes.N, kernel.rows) * divide_up(sizes.d, kernel.columns)
        elements += tiles * (4 + kernel.rows * kernel.columns)  # a lock, a counter and padding
    return sizes.B * sizes.H * round_up(elements, 4) * FLOAT


def _key_splits(call: OpCall, sizes: Sizes, kernel: BackwardKernel) -> int:
    """Returns the number of blocks of keys that run at once, each with its own accumulator."""
    if call.deterministic or not kernel.splits_keys:
        return 1
    return max(1, min(divide_up(sizes.M, kernel.columns), 200 // (sizes.B * sizes.H)))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._scaled_dot_product_efficient_attention.default": forward,
        "aten._scaled_dot_product_efficient_attention_backward.default": backward,
        "aten._efficient_attention_forward.default": unscaled_forward,
        "aten._efficient_attention_backward.default": unscaled_backward,
    }
)
