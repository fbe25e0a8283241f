"""Every kernel's model is what its code says: the same polynomials, or the same bytes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_attnmem.backends.simulated.session.derive_program import program
from pytest_attnmem.budgets.memory_model import MemoryModel
from pytest_attnmem.closed_forms.closed_form import closed_form
from pytest_attnmem.closed_forms.live_sets import Allocated, peak
from pytest_attnmem.formulas.envelope import envelope
from pytest_attnmem.formulas.interpolation import Sample, fit, sample
from pytest_attnmem.formulas.polynomial import Polynomial
from pytest_attnmem.kernels import KERNELS, Kernel
from pytest_attnmem.symbols.argument_shapes import parse_shapes
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather

from .references import BOTH, over

if TYPE_CHECKING:
    import torch

#: Where every one is a polynomial: lengths of whole blocks, and none so small that it is special.
SIZES = {
    "B": (2, 3, 4, 5),
    "H": (2, 3, 4, 6),
    "N": (128, 256, 512, 768, 1024),
    "d": (16, 32, 48, 64, 80),
}
#: Loops over blocks change their course with N, so only the bytes can be compared.
ODD = {"B": (2, 3), "H": (1, 3), "N": (20, 65, 130), "d": (16, 40)}
#: The runs of a kernel with a step for each position take long.
STEPS = {**ODD, "N": (5, 20, 33)}
SHOWN = 3


@BOTH
@over(KERNELS)
def test_the_model_is_the_derived_form(kernel: Kernel, training: bool) -> None:
    model = kernel.model.training if training else kernel.model.forward
    arguments = parse_shapes(("B H N d",) * 3)
    called = partial(_called, kernel, training)
    dtype = "float16" if kernel.name in HALVES else "float32"
    with program(called, arguments, dtype=dtype, backward=training, profile="") as run:
        if kernel.name in STRAIGHT:
            where = sample(SIZES)
            found = closed_form(run, SIZES, SIZES)
            assert found.how == "derived"
            derived = {candidate.polynomial for candidate in found.candidates}
            assert _polynomials(model, where, kernel, dtype) == derived
        where = sample(STEPS if kernel.name == "linear-recurrent" else ODD)
        for point in where.points[:: len(where.points) // SHOWN][:SHOWN]:
            sizes = where.named(point)
            assert peak(run(sizes)) == _modelled(model, sizes, kernel, dtype)


#: Those that run the same operators at every size.
STRAIGHT = frozenset({"standard", "checkpointed", "sdpa-math", "linear", "linear-causal"})


#: Those that take half types alone on CUDA, and keep the state of random numbers there.
HALVES = frozenset({"sdpa-flash", "sdpa-cudnn"})


def _called(
    kernel: Kernel, training: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    out = kernel.attention(q, k, v, causal=False not in kernel.causal)
    return out.sum() if training else out


def _modelled(model: MemoryModel, sizes: dict[str, int], kernel: Kernel, dtype: str) -> int:
    return model.peak(_shape(sizes, kernel, dtype), _kinds(kernel))


def _polynomials(model: MemoryModel, where: Sample, kernel: Kernel, dtype: str) -> set[object]:
    """The live set of each phase, fitted as tensors are, without those that others bound."""
    lives = {
        p: model.live(_shape(where.named(p), kernel, dtype), _kinds(kernel)) for p in where.points
    }
    found = []
    for phase in model.phases:
        total = Polynomial.constant(0)
        for name in lives[where.base][phase.name]:
            bytes_of = fit(where, {p: live[phase.name][name] for p, live in lives.items()})
            assert bytes_of is not None, f"{name} in {phase.name}"
            total = total + bytes_of
        found.append(total)
    return {*envelope(sorted(found, key=lambda p: -p.value(where.named(where.base))), {})}


def _kinds(kernel: Kernel) -> tuple[str, ...]:
    """None, for the tensors alone; the random state of a fused kernel is a tensor on CUDA."""
    return ("cuda",) if kernel.name in HALVES else ()


def _shape(sizes: dict[str, int], kernel: Kernel, dtype: str) -> AttentionShape:
    causal = int(False not in kernel.causal)
    known = {**sizes, "dtype": dtype, "causal": causal}
    return gather([Source("the test", known)])


def test_the_tensors_that_are_compared_are_those_of_the_program() -> None:
    with program(
        lambda q: q.softmax(-1), parse_shapes(("N d",)), dtype=None, backward=False, profile=""
    ) as run:
        (birth,) = run({"N": 8, "d": 4})
    assert isinstance(birth, Allocated)
    assert (birth.held.nbytes, birth.held.op) == (128, "softmax")
