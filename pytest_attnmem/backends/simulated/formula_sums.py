"""The additions that autograd's formulas make, apart from sums of gradients.

Autograd sums two gradients in place where it can, in the same node as its formula. A formula adds
tensors that it has made itself, and returns one gradient for each input (FunctionsManual.cpp).
"""

from __future__ import annotations

from typing import Any, Final

import torch

#: Nodes whose formulas add two tensors.
_NODES: Final = frozenset(
    {
        *("VarMeanBackward0", "StdMeanBackward0", "SpecialI1EBackward0", "SpecialI1Backward0"),
        *("NativeGroupNormBackward0", "SpecialModifiedBesselK1Backward0", "LuUnpackBackward0"),
        *("Atan2Backward0", "TriangularSolveBackward0", "CholeskySolveBackward0"),
        *("CholeskyInverseBackward0", "LinalgDetBackward0", "LinalgLstsqBackward0"),
        *("LinalgLuBackward0", "LinalgLuSolveBackward0", "LinalgPinvBackward0"),
        *("LinalgQrBackward0", "LinalgSvdBackward0"),
    }
)
#: Nodes of one input, which add what they have made to another tensor, such as the result.
_OF_ONE_INPUT: Final = frozenset(
    {
        *("SpecialLogNdtrBackward0", "MvlgammaBackward0", "LogcumsumexpBackward0"),
        "AminmaxBackward0",
    }
)
#: In the names of nodes that compute gradients of gradients. They return one for the gradient and
#: one for the input, which go to different nodes, so they sum none of what they made with another.
_OF_GRADIENTS: Final = "BackwardBackward"

#: The class in Python of nodes that have none of their own (``python_cpp_function.cpp``).
_WITHOUT_CLASS: Final = "CppFunction"


class FormulaSums:
    """Knows which tensors the formula of the present node has made."""

    def __init__(self) -> None:
        self._node: tuple[str, int] | None = None
        self._made: set[int] = set()

    def note(self, out: Any) -> None:
        """Notes the result of an operator that a formula may have called."""
        node = _adding_node()
        if node != self._node:
            self._node = node
            self._made.clear()
        if node is not None and isinstance(out, torch.Tensor):
            self._made.add(out.untyped_storage()._cdata)

    def includes(self, first: Any, second: Any) -> bool:
        """Returns True if the sum of both tensors is part of a formula."""
        node = _adding_node()
        if node is None or node != self._node or not isinstance(second, torch.Tensor):
            return False
        alone = node[0] in _OF_ONE_INPUT or _OF_GRADIENTS in node[0]
        summands = (first,) if alone else (first, second)
        return {t.untyped_storage()._cdata for t in summands} <= self._made


def _adding_node() -> tuple[str, int] | None:
    node: Any = torch._C._current_autograd_node()
    if node is None:
        return None
    name = type(node).__name__  # of most nodes; ``name()`` takes several times as long
    if name == _WITHOUT_CLASS:
        name = node.name()
    if name in _NODES or name in _OF_ONE_INPUT or _OF_GRADIENTS in name:
        return name, node._sequence_nr()
    return None
