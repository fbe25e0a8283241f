"""A bundled kernel at its sizes, as ``predict`` and ``max-length`` look at it."""

from __future__ import annotations

import difflib
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..budgets.memory_model import MemoryModel
from ..errors import AttnMemError, BudgetError
from ..measurement.qkv_inputs import dtype_of, qkv
from ..profiles import DEFAULT_PROFILE, DeviceProfile
from ..symbols.attention_shape import AttentionShape, Source, gather
from ..units import shown

if TYPE_CHECKING:
    from ..backends.primed_backend import PrimedBackend
    from ..kernels import Kernel
    from ..measurement.measurement import Measurement

#: Sizes at which counting a kernel's allocations is quick, and tells how they grow.
_FEW: Final = 512


@dataclass(frozen=True, slots=True)
class Workload:
    """One pass of a kernel."""

    kernel: Kernel
    sizes: dict[str, int]
    """B, H, Hkv, N, M, d, dv."""
    dtype: Any
    backward: bool
    causal: bool

    def __str__(self) -> str:
        names = " ".join(f"{name}={size}" for name, size in self.sizes.items())
        dtype = str(self.dtype).removeprefix("torch.")
        causal = " causal" if self.causal else ""
        return f"{self.kernel.name} {self.direction}{causal}, {names} {dtype}"

    @property
    def direction(self) -> str:
        """What is run of it."""
        return "forward and backward" if self.backward else "forward"

    @property
    def model(self) -> MemoryModel:
        """What the kernel promises of it."""
        return self.kernel.model.training if self.backward else self.kernel.model.forward

    @property
    def shape(self) -> AttentionShape:
        """What the model's formulas read."""
        known = {**self.sizes, "dtype": self.dtype, "causal": int(self.causal)}
        return gather([Source("the command line", known)])

    @property
    def inputs_bytes(self) -> int:
        """q, k and v."""
        shape = self.shape
        return shape.q_bytes + shape.k_bytes + shape.v_bytes

    def at(self, **sizes: int) -> Workload:
        """The same at other sizes."""
        return replace(self, sizes={**self.sizes, **sizes})

    def measured(self, primed: PrimedBackend) -> Measurement:
        """Run it on a simulated device that has nothing on it but workspaces.

        What is left at the end is what is kept: out, or the gradients.

        Raises:
            BudgetError: the kernel does not take this.
        """
        import torch

        backend = primed.backend
        backend.forget()

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

    def allocations(self, primed: PrimedBackend) -> int:
        """About how many it makes: a loop over blocks is simulated block by block.

        Counted at two small sizes that are as long to wide as this, whose growth goes on.
        """
        longest = max(self.sizes["N"], self.sizes["M"])
        if longest <= 2 * _FEW:
            return 0
        few, twice = (
            max(1, self._shrunk(_FEW * times / longest).measured(primed).allocations)
            for times in (0.5, 1)
        )
        doublings = math.log2(longest / _FEW)
        return int(twice * math.pow(max(1.0, twice / few), doublings))

    def _shrunk(self, share: float) -> Workload:
        return self.at(**{name: max(1, round(self.sizes[name] * share)) for name in ("N", "M")})


def unlimited(profile: DeviceProfile, *, scratch: bool = True) -> PrimedBackend:
    """A simulated device that no memory runs out of; without the ``scratch`` of its kernels."""
    from ..backends.primed_backend import PrimedBackend
    from ..backends.simulated import Simulated, program_only

    device = replace(profile, memory_bytes=1 << 70)
    return PrimedBackend(Simulated(device, None if scratch else program_only), 0)


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
    parser.add_argument("--dtype", default="float32", help="of the inputs (default: float32)")
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--causal", action="store_true", help="query i sees keys 0 to i")
    parser.add_argument(
        "--device",
        default=DEFAULT_PROFILE,
        metavar="PROFILE",
        help=f"such as H100 (default: {DEFAULT_PROFILE})",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def workload(arguments: Namespace) -> Callable[[int], Workload]:
    """The workload of each length, with as many keys unless they were given.

    Raises:
        BudgetError: there is no such kernel or dtype, a size is none, or the kernel does not take
            it.
    """
    kernel = _kernel(arguments.kernel)
    dtype = dtype_of(arguments.dtype, "--dtype")
    given = {
        name: size_of(name, text)
        for name in ("B", "H", "Hkv", "M", "d", "dv")
        if (text := getattr(arguments, name)) is not None
    }
    sizes = {"Hkv": given["H"], "dv": given["d"], **given}
    if sizes["Hkv"] != sizes["H"] and not kernel.gqa:
        raise BudgetError(f"{kernel.name} has as many heads for keys as for queries: leave out Hkv")
    if sizes["dv"] != sizes["d"] and kernel.equal_head_dims:
        raise BudgetError(f"{kernel.name} has values as wide as keys: leave out dv")
    if arguments.causal and True not in kernel.causal:
        raise BudgetError(f"{kernel.name} is not causal: leave out --causal")
    causal = arguments.causal or False not in kernel.causal
    return partial(_of_length, Workload(kernel, sizes, dtype, arguments.backward, causal))


def size_of(name: str, text: str) -> int:
    """A size from the command line.

    Raises:
        BudgetError: it is no whole number of at least 1.
    """
    try:
        size = int(text)
    except ValueError:
        size = 0
    if not 1 <= size < 2**63:
        raise BudgetError(f"--{name}: expected a whole number >= 1 and < 2**63, got {shown(text)}")
    return size


def _of_length(any_length: Workload, N: int) -> Workload:
    order = ("B", "H", "Hkv", "N", "M", "d", "dv")
    sizes = {"M": N, **any_length.sizes, "N": N}
    return replace(any_length, sizes={name: sizes[name] for name in order})


def _kernel(name: str) -> Kernel:
    from ..kernels import KERNELS

    kernels = {kernel.name: kernel for kernel in KERNELS}
    if name in kernels:
        return kernels[name]
    close = difflib.get_close_matches(name, kernels, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise BudgetError(f"unknown kernel {shown(name)}; {hint}expected one of {', '.join(kernels)}")
