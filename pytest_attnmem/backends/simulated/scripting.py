"""TorchScript, which compiles the functions of PyTorch as installed, and no replacement of one."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NoReturn

import torch

from ...errors import CannotSimulate, StartAgain
from .placement import Placement
from .program_errors import ProgramErrors, at

#: The functions through which ``torch.jit.script`` and ``torch.jit.trace`` compile (torch/jit).
_COMPILERS = (
    (torch.jit._script, "_script_impl"),
    (torch.jit._recursive, "create_script_module"),
)
#: The types whose calls run TorchScript's interpreter.
_SCRIPTS: Final = (torch._C.ScriptFunction, torch._C.ScriptMethod)
#: What C++ code says that needs the data of a tensor, or the device.
_NEEDED: Final = (
    *("Cannot access data pointer", "not linked with support for"),
    "Cannot initialize CUDA",
)
#: What C++ code says of tensors that it made itself, which are on the host here, and where it does.
_MIXED: Final = ("Expected all tensors to be on the same device", "ctc_loss")
_CALLED: Final = re.compile(r"aten::(\w+)\(")
#: How an error ends of an operator that failed in Python code.
_UNTOLD: Final = "RuntimeError: \n"


def compiled_without_patches(
    left: Callable[[], AbstractContextManager[None]],
) -> dict[tuple[Any, str], Any]:
    """Returns patches, by owner and name, that compile scripts while the other patches are off.

    ``left`` is the context without them.
    """

    def without_patches(compiler: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            with left():
                return compiler(*args, **kwargs)

        return compile

    return {(owner, name): without_patches(getattr(owner, name)) for owner, name in _COMPILERS}


def without_loads(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patch that refuses to load a script, which C++ code reads."""

    def load(*_: Any, **__: Any) -> NoReturn:
        raise refused(f"torch.jit.load{at()} cannot be simulated; load the script in a fixture")

    return {(torch.jit, "load"): load}


class Scripts:
    """The calls of scripts in the windows of one simulation."""

    def __init__(self, errors: ProgramErrors, placement: Placement) -> None:
        self._errors = errors
        self._placement = placement
        self._called = weakref.WeakSet[Any]()
        self._profiled = weakref.WeakSet[Any]()
        """The scripts that were called: TorchScript fuses their kernels from then on."""

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns patches of the calls, by owner and name, that raise the errors of this package.

        The interpreter raises another error in their place, with their text at most.
        """
        return {(script, "__call__"): self._followed(script.__call__) for script in _SCRIPTS}

    def end(self, forget: bool) -> None:
        """Ends a program; ``forget`` if its tensors may be on another device in the next one.

        TorchScript computes once what does not depend on the arguments, and keeps the tensors.
        """
        for script in self._called if forget else ():
            script._debug_flush_compilation_cache()
        self._called.clear()

    def _followed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(script: Any, *args: Any, **kwargs: Any) -> Any:
            self._called.add(script)
            if script in self._profiled and _fuses(script, args, kwargs):
                self._errors.record(
                    f"TorchScript fuses the kernels of a script that is called again{at()}, which"
                    " cannot be simulated; set PYTORCH_JIT=0, which runs scripts as Python, or use"
                    " backend='null' or 'cuda'"
                )
            self._profiled.add(script)
            known, self._errors.last_raised = len(self._errors.texts), ""
            try:
                return original(script, *args, **kwargs)
            except RuntimeError as error:
                self._raise_own(error, known)
                raise

        return __call__

    def _raise_own(self, error: RuntimeError, known: int) -> None:
        """Raises what the script failed with, if the interpreter's error does not tell it."""
        if self._placement.starts_again:
            raise StartAgain(self._placement.starts_again) from None
        if len(self._errors.texts) > known:
            raise CannotSimulate(self._errors.texts[-1]) from None
        text = f"{error}{self._errors.last_raised}"
        if any(needed in text for needed in _NEEDED) or all(part in text for part in _MIXED):
            raise self._errors.record(
                f"TorchScript{at()} needs in C++ code the device itself, or the data of a tensor,"
                " as its torch.tensor and ctc_loss do; set PYTORCH_JIT=0, which runs scripts as"
                " Python, or use backend='cpu' for this test"
            ) from None
        if str(error).endswith(_UNTOLD) and self._errors.last_raised:
            told = str(error).removesuffix("\n") + self._errors.last_raised
            raise type(error)(f"{told}\n") from None


def _fuses(script: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns True for a call on the device of a script with several kernels of elements."""
    tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
    if not (torch._C._jit_texpr_fuser_enabled() and any(tensor.is_cuda for tensor in tensors)):
        return False
    called = _CALLED.findall(str(script.inlined_graph))
    return sum(map(_is_of_elements, called)) > 1


def _is_of_elements(name: str) -> bool:
    packet = getattr(torch.ops.aten, name)
    overloads = (getattr(packet, overload) for overload in packet.overloads())
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)
