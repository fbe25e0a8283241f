"""The roofline: the roof of a device, and the operations of a model under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from . import figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..inference.analysis import Analysis, Operation, StepCost

#: Operations closer together than this factor share a label, because two would overlap.
_CLOSE: Final = 1.4


def draw(found: Analysis) -> Figure:
    """Returns the figure: attainable FLOPs per second over FLOPs per byte, both logarithmic.

    Raises:
        AttnMemError: matplotlib is not installed.
    """
    drawn, axes = figure(width=8, height=5)
    device, steps = found.roof, (found.decode, found.prefill)
    ridge, peak = device.ridge, device.compute_flops / 1e12
    intensities = [one.intensity for step in steps for one in step.operations]
    left = min(*intensities, device.ridge) / 4
    right = max(*intensities, device.ridge) * 4
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(left, right),
        xlabel="arithmetic intensity, FLOP per byte",
        ylabel="attainable, TFLOP/s",
        title=f"{device.name}: batch {found.batch_size:,} of {found.seq_len:,} tokens",
    )
    axes.plot([left, ridge, right], [peak * left / ridge, peak, peak], color="black", label="roof")
    axes.set_ylim(peak * left / ridge / 8, peak * 32)
    axes.axvline(ridge, color="grey", linestyle=":", label=f"ridge point, {ridge:,.1f} FLOP/B")
    for place, step in enumerate(steps):
        _points(axes, found, step, place)
    axes.legend(loc="upper left")
    return drawn


def _points(axes: Any, found: Analysis, step: StepCost, place: int) -> None:
    look = {**style(place), "linestyle": "none"}
    intensities = [one.intensity for one in step.operations]
    rates = [found.roof.attainable(one) / 1e12 for one in intensities]
    axes.plot(intensities, rates, **look, label=step.name)
    # Labels are rotated so that neighbours do not overlap: decode below the roof, prefill above.
    above = place % 2
    for names, intensity in _labels(step):
        axes.annotate(
            names,
            (intensity, found.roof.attainable(intensity) / 1e12),
            xytext=(4, 6 if above else -6),
            textcoords="offset points",
            rotation=45 if above else -45,
            rotation_mode="anchor",
            va="bottom" if above else "top",
            fontsize=8,
            color=look["color"],
        )


def _labels(step: StepCost) -> Iterator[tuple[str, float]]:
    """Yields each label, the names of its operations, and its place, from left to right."""
    ordered = sorted(step.operations, key=lambda one: one.intensity)
    together: list[Operation] = []
    for one in ordered:
        if together and one.intensity > _CLOSE * together[0].intensity:
            yield _names(together), together[-1].intensity
            together = []
        together.append(one)
    yield _names(together), together[-1].intensity


def _names(together: list[Operation]) -> str:
    return ", ".join(one.name.partition(" ")[0] for one in together)
