"""A bundled kernel at given sizes, for the commands ``predict`` and ``max-length``."""

from __future__ import annotations

import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..budgets.memory_model import MemoryModel
from ..errors import AttnMemError, BudgetError
from ..kernels import Kernel
from ..kernels.registry import kernel_named
from ..measurement.qkv_inputs import dtype_of, qkv
from ..profiles import DEFAULT_PROFILE
from ..sweep.extrapolation import extrapolated
from ..symbols.attention_shape import AttentionShape, Source, gather
from ..units import format_values, shown

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend
    from ..measurement.measurement import Measurement

#: A length at which counting the steps of a kernel is quick and shows how they grow.
_SHORT: Final = 512


@dataclass(frozen=True, slots=True)
class Workload:
    """One pass of a kernel at given sizes."""

    kernel: Kernel
    sizes: dict[str, int]
    """B, H, Hkv, N, M, d, dv."""
    dtype: Any
    backward: bool
    causal: bool

    def __str__(self) -> str:
        names = format_values(self.sizes)
        direction = "forward and backward" if self.backward else "forward"
        causal = " causal" if self.causal else ""
        return f"{self.kernel.name} {direction}{causal}, {names} {_name(self.dtype)}"

    def facts(self, device: str) -> dict[str, Any]:
        """Returns the workload on a device as JSON values."""
        return {
            "kernel": self.kernel.name,
            "backward": self.backward,
            "causal": self.causal,
            "shape": self.sizes,
            "dtype": _name(self.dtype),
            "device": device,
        }

    @property
    def model(self) -> MemoryModel:
        """The kernel's memory model of the passes."""
        return self.kernel.model.training if self.backward else self.kernel.model.forward

    @property
    def shape(self) -> AttentionShape:
        """The symbols of the model's formulas."""
        known = {**self.sizes, "dtype": self.dtype, "causal": int(self.causal)}
        return gather([Source("the command line", known)])

    @property
    def inputs_bytes(self) -> int:
        """The bytes of q, k and v."""
        shape = self.shape
        return shape.q_bytes + shape.k_bytes + shape.v_bytes

    def measured(self, primed: PrimedBackend) -> Measurement:
        """Returns the measurement on a simulated device that holds only workspaces.

        The output, or the gradients, stay allocated at the end.

        Raises:
            BudgetError: the kernel does not accept the sizes.
        """
        import torch

        from ..backends.registry import restart

        backend = primed.backend
        restart(backend)

        def program() -> Any:
            sizes = {**self.sizes, "dtype": self.dtype, "device": backend.device}
            inputs = qkv(**sizes, requires_grad=self.backward)
            if not self.backward:
                return self.kernel.attention(*inputs, causal=self.causal), inputs
            self.kernel.attention(*inputs, causal=self.causal).sum().backward()
            return inputs

        try:
            with torch.set_grad_enabled(self.backward):
                return primed.run(program)[0]
        except (AttnMemError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise BudgetError(f"{self}: the kernel raised {shown(error, 200)}") from error

    def steps(self, primed: PrimedBackend) -> int:
        """Returns the approximate number of steps, in which a simulated run takes its time.

        A step is an allocation, or five calls of operators: a loop over blocks is simulated block
        by block. Both are counted at two short lengths of the same proportions and extrapolated.
        """
        longest = max(self.sizes["N"], self.sizes["M"])
        if longest <= 2 * _SHORT:
            return 0
        doublings = math.log2(longest / _SHORT)
        short = (self._shrunk(_SHORT * share / longest) for share in (0.5, 1))
        half, full = (work._counted(primed) for work in short)
        allocations, calls = (
            extrapolated(*pair, doublings) for pair in zip(half, full, strict=True)
        )
        return max(allocations, calls // 5)

    def _counted(self, primed: PrimedBackend) -> tuple[int, int]:
        """Returns the number of allocations, and of calls of operators in the forward pass."""
        from torch.overrides import TorchFunctionMode

        calls = 0

        class Counting(TorchFunctionMode):
            def __torch_function__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                nonlocal calls
                calls += 1
                return func(*args, **(kwargs or {}))

        def attention(*tensors: Any, **options: Any) -> Any:
            with Counting():
                return self.kernel.attention(*tensors, **options)

        counted = replace(self, kernel=replace(self.kernel, attention=attention))
        return counted.measured(primed).allocations, calls

    def _shrunk(self, share: float) -> Workload:
        lengths = {name: max(1, round(self.sizes[name] * share)) for name in ("N", "M")}
        return replace(self, sizes={**self.sizes, **lengths})


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def add_arguments(parser: ArgumentParser, *, length: bool) -> None:
    """``flash --B 1 --H 8 --N 4096 --d 64 --dtype float16 --backward --device H100``."""
    parser.add_argument("kernel", metavar="KERNEL", help="such as standard, flash or sdpa-flash")
    parser.add_argument("--B", required=True, metavar="SIZE", help="batch")
    parser.add_argument("--H", required=True, metavar="SIZE", help="query heads")
    parser.add_argument("--Hkv", metavar="SIZE", help="key/value heads (default: H)")
    if length:
        parser.add_argument("--N", required=True, metavar="SIZE", help="queries")
    parser.add_argument("--M", metavar="SIZE", help="keys (default: N)")
    parser.add_argument("--d", required=True, metavar="SIZE", help="head dimension")
    parser.add_argument("--dv", metavar="SIZE", help="head dimension of the values (default: d)")
    parser.add_argument("--dtype", default="float32", help="dtype of the inputs (default: float32)")
    parser.add_argument("--backward", action="store_true", help="run forward and backward")
    parser.add_argument("--causal", action="store_true", help="query i sees keys 0 to i")
    parser.add_argument(
        "--device",
        default=DEFAULT_PROFILE,
        metavar="PROFILE",
        help=f"device to simulate, such as H100 (default: {DEFAULT_PROFILE})",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def workload(arguments: Namespace) -> Callable[[int], Workload]:
    """Returns the function that makes the workload of a length, with as many keys by default.

    Raises:
        BudgetError: the kernel or dtype is unknown, or the kernel does not accept a size.
    """
    kernel = kernel_named(arguments.kernel)
    dtype = dtype_of(arguments.dtype, "--dtype")
    given = {
        name: size_of(name, text)
        for name in ("B", "H", "Hkv", "M", "d", "dv")
        if (text := getattr(arguments, name)) is not None
    }
    sizes = {"Hkv": given["H"], "dv": given["d"], **given}
    if sizes["Hkv"] != sizes["H"] and not kernel.gqa:
        raise BudgetError(f"{kernel.name} has as many key heads as query heads: leave out --Hkv")
    if sizes["dv"] != sizes["d"] and kernel.equal_head_dims:
        raise BudgetError(f"{kernel.name} has values as wide as its keys: leave out --dv")
    if arguments.causal and True not in kernel.causal:
        raise BudgetError(f"{kernel.name} is not causal: leave out --causal")
    causal = arguments.causal or kernel.always_causal

    def of_length(N: int) -> Workload:
        known = {"M": N, **sizes, "N": N}
        ordered = {name: known[name] for name in ("B", "H", "Hkv", "N", "M", "d", "dv")}
        return Workload(kernel, ordered, dtype, arguments.backward, causal)

    return of_length


def size_of(name: str, text: str) -> int:
    """Returns a size from the command line.

    Raises:
        BudgetError: the text is not a whole number of at least 1.
    """
    try:
        size = int(text)
    except ValueError:
        size = 0
    if not 1 <= size < 2**63:
        raise BudgetError(f"--{name}: expected a whole number >= 1 and < 2**63, got {shown(text)}")
    return size
