"""One tensor, or one kernel's scratch, that was allocated at a moment of a window."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

#: The end of the operator's name where an allocation is its scratch, for people to read.
SCRATCH_SUFFIX: Final = " (scratch)"
#: The end of the name of a library's workspace: ``cuBLAS workspace``.
WORKSPACE_SUFFIX: Final = " workspace"
#: The roles of tensors of modules that a backward pass made, or freed.
BACKWARD, SAVED = "backward", "saved"


@dataclass(eq=False)
class Returned:
    """Holds what a measured call returned, which becomes ``Measurement.result``."""

    result: Any


@dataclass(frozen=True, slots=True)
class Held:
    """One tensor alive at the peak."""

    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    op: str
    """The operator that made it, as PyTorch names it: ``softmax``."""
    where: str
    """The innermost line of the project under test, else the innermost one outside torch and this
    package: ``attn.py:31``."""
    function: str = ""
    """The function that line is in."""
    module: str = ""
    """The ``nn.Module`` that ran, as its root names it: ``blocks.2.attention``."""
    role: str = ""
    """``parameter``, ``gradient`` (of a parameter), ``optimizer`` (made by one), ``saved`` (made by
    a forward pass, freed by a backward pass) or ``backward`` (made by the backward pass of its
    module); else empty."""
    by: str = field(default="", compare=False)
    """The line of a library that ``where`` called: ``einops/_backends.py:291``."""
    dims: tuple[str, ...] = ()
    """Each size in the symbols of the test, ``("4", "N", "2*N")``, where runs at other sizes
    prove it; else empty."""
    scratch: bool = False
    """True for memory that a kernel allocates for itself: ``op`` then ends in ``(scratch)``, or is
    the name of a workspace."""
    workspace: bool = False
    """True for the workspace that a library has during one call: ``cuBLAS workspace``."""
    holder: str = field(default="", compare=False)
    """The object that holds it, as a person would type it: ``Loop.outputs[3]``. Empty: unknown, or
    nobody looked."""

    @classmethod
    def of_scratch(cls, nbytes: int, op: str, *origin: Any) -> Held:
        """Returns the scratch of an operator; ``origin`` begins with ``where`` and ``function``."""
        return replace(cls(nbytes, (), "", op + SCRATCH_SUFFIX, *origin), scratch=True)

    @classmethod
    def of_workspace(cls, nbytes: int, library: str, *origin: Any) -> Held:
        """Returns the workspace of a library, ``cuBLAS``."""
        made = cls(nbytes, (), "", library + WORKSPACE_SUFFIX, *(origin or ("",)))
        return replace(made, scratch=True, workspace=True)

    @property
    def origin(self) -> Held:
        """Returns the tensor without the facts that only a traced run knows."""
        return replace(self, module="", role="", dims=(), holder="")
