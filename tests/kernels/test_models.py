"""Every kernel's memory model is its peak, to the byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pytest_attnmem.budgets.memory_model import MemoryModel
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.measurement.protocol import BackendProtocol
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather

# Each of (B, H, N, M, d, dv): odd ones, single ones, long and short, wide and narrow.
SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (1, 1, 1, 50, 32, 16),
    (2, 2, 50, 1, 16, 32),
    (1, 1, 64, 1, 8, 64),
    (1, 1, 5, 5, 100, 3),
    (1, 1, 5, 5, 3, 100),
    (2, 3, 100, 33, 8, 24),
    (1, 2, 33, 100, 16, 8),
    (2, 4, 128, 128, 32, 32),
    (1, 2, 200, 530, 16, 16),
    (1, 1, 800, 40, 4, 8),
]
#: The corners, for all but the whole measured peak: its bytes are those of the program and scratch.
CORNERS = pytest.mark.parametrize("sizes", SHAPES[::3], ids=str)
#: Two corners for each half type: the program alone, which ``test_derived`` has in float32.
HALF = [*zip(SHAPES[::3], (torch.bfloat16, torch.float16) * 2, strict=True)]


@pytest.fixture(params=("forward", "training"))
def mode(request: pytest.FixtureRequest) -> str:
    """The mode whose peak a model promises."""
    return str(request.param)


class Case:
    """A kernel in one mode, to be run on inputs and held to its model."""

    def __init__(self, kernel: Kernel, mode: str, options: dict[str, object]) -> None:
        self.model: MemoryModel = getattr(kernel.model, mode)
        self.training = mode == "training"
        self.kernel, self.options = kernel, options

    def call(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], object]:
        """Returns the modelled call, which keeps its result or its gradients."""

        def forward() -> object:
            with torch.no_grad():
                return self.kernel.attention(q, k, v, **self.options)

        def training() -> None:
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]  # whose gradients are theirs
            self.kernel.attention(*leaves, **self.options).sum().backward()

        return training if self.training else forward

    def shape(self, q: torch.Tensor, v: torch.Tensor, backend: BackendProtocol) -> AttentionShape:
        """The sizes of the inputs and options, as a marker would find them."""
        (B, H, N, d), (M, dv) = q.shape, v.shape[2:]
        sizes = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "dtype": q.dtype}
        options = {
            name: value.numel() if isinstance(value, torch.Tensor) else value
            for name, value in self.options.items()
        }
        return gather(
            [Source("the test", {**sizes, **options}), Source("the backend", backend.symbols)]
        )


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_the_model_is_the_measured_peak(kernel, causal, mode, sizes, inputs, peak, cpu):
    case = Case(kernel, mode, {"causal": causal})
    q, k, v = inputs(sizes, torch.float32, requires_grad=case.training)
    assert peak(case.call(q, k, v)) == case.model.peak(case.shape(q, v, cpu), cpu.kinds)


@CORNERS
def test_double_types_have_scratch_of_their_own(kernel, causal, mode, sizes, inputs, peak, cpu):
    case = Case(kernel, mode, {"causal": causal})
    q, k, v = inputs(sizes, torch.float64, requires_grad=case.training)
    assert peak(case.call(q, k, v)) == case.model.peak(case.shape(q, v, cpu), cpu.kinds)


@pytest.mark.parametrize(("sizes", "dtype"), HALF, ids=str)
def test_half_types_have_the_program_of_the_model(
    kernel, causal, mode, sizes, dtype, inputs, peak, cpu
):
    case = Case(kernel, mode, {"causal": causal})
    q, k, v = inputs(sizes, dtype, requires_grad=case.training)
    program = case.model.peak(case.shape(q, v, cpu))
    assert peak(case.call(q, k, v), trace=True) == program
    assert peak(case.call(q, k, v)) >= program  # the rest is scratch, and the machine's own


@pytest.mark.parametrize(
    "kernel", [kernel for kernel in KERNELS if kernel.mask], ids=lambda kernel: kernel.name
)
@pytest.mark.parametrize("planes", [(), (1, 1), (2, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 20, 33, 8, 1), (2, 3, 1, 1, 1, 2)], ids=str)
def test_masks_are_in_the_model(kernel, mode, planes, sizes, inputs, peak, cpu):
    mask = torch.ones(*planes, *sizes[2:4], dtype=torch.bool).tril(3)
    case = Case(kernel, mode, {"mask": mask})
    q, k, v = inputs(sizes, torch.float32, requires_grad=case.training)
    shape = case.shape(q, v, cpu)
    assert peak(case.call(q, k, v)) == case.model.peak(shape, cpu.kinds)
    assert peak(case.call(q, k, v), trace=True) == case.model.peak(shape)


@pytest.mark.parametrize(
    "kernel",
    [kernel for kernel in KERNELS if kernel.name in ("standard", "flash")],
    ids=lambda kernel: kernel.name,
)
def test_fifty_runs_give_one_number(kernel, mode, inputs, peak):
    case = Case(kernel, mode, {"causal": True})
    q, k, v = inputs((2, 2, 33, 40, 8, 8), torch.float32, requires_grad=case.training)
    assert len({peak(case.call(q, k, v)) for _ in range(50)}) == 1


def test_a_models_phases_can_be_told_apart(kernel, mode):
    phases = getattr(kernel.model, mode).phases
    assert len({phase.name for phase in phases}) == len(phases)
