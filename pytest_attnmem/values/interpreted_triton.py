"""Runs a kernel of Triton by Triton's interpreter, with what it lacks of a GPU.

The interpreter (triton/runtime/interpreter.py, ``TRITON_INTERPRET=1``) runs a kernel's Python code
with NumPy, one program of the grid after the other. It is made for kernels that were decorated
under that variable; these were compiled, and are compiled again after a run. It reads and writes
any address; one that a kernel computed wrongly, or that belongs to the device, would end the
process. CUDA's mathematical functions (libdevice) are computed by PyTorch; one is named as there
without ``__nv_``, and the suffix of its float32 form is dropped.
"""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, Final

import torch

from .narrow_floats import COMPUTING, NarrowFloats
from .work import TRITON_ELEMENT, TRITON_OPERATION, WorkLeft

#: The names that libdevice and PyTorch have in common.
_SAME: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos"),
    *("cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod"),
    *("hypot", "lgamma", "log", "log10", "log1p", "log2", "pow", "rsqrt", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
)
#: Those that are approximate on a GPU.
_FAST: Final = ("cos", "exp", "log", "log10", "log2", "pow", "sin", "tan", "tanh")

FUNCTIONS: Final[Mapping[str, Callable[..., torch.Tensor]]] = MappingProxyType(
    {
        **{name: getattr(torch, name) for name in _SAME},
        **{f"fast_{name}": getattr(torch, name) for name in _FAST},
        "cbrt": lambda x: torch.copysign(x.abs() ** (1 / 3), x),
        "exp10": lambda x: torch.pow(10.0, x),
        "fabs": torch.abs,
        "fma": lambda x, y, z: x * y + z,
        "fdim": lambda x, y: (x - y).clamp(min=0),
        "fast_exp10": lambda x: torch.pow(10.0, x),
        "fast_fdivide": torch.div,
        "finite": torch.isfinite,
        "isinf": torch.isinf,
        "isnan": torch.isnan,
        "nearbyint": torch.round,
        "rint": torch.round,
        "round": lambda x: torch.copysign(torch.floor(x.abs() + 0.5), x),
    }
)


def computed(symbol: str, arguments: list[Any]) -> Any:
    """Returns what a function of libdevice returns, as an array of NumPy.

    Args:
        symbol: the name, as ``__nv_tanhf``.
        arguments: arrays of NumPy.

    Raises:
        NotImplementedError: the function is not known.
    """
    name = symbol.removeprefix("__nv_")
    found = FUNCTIONS.get(name) or FUNCTIONS.get(name[:-1])
    if found is None:
        raise NotImplementedError(f"the function {symbol} of libdevice has no equivalent")
    return found(*[torch.from_numpy(argument.copy()) for argument in arguments]).numpy()


class KernelMemory:
    """The functions of ``triton._C.libtriton.interpreter``; those that use memory check it first.

    Raises:
        MemoryError: an address is outside the tensors.
    """

    def __init__(self, native: Any, numpy: Any, tensors: Iterable[torch.Tensor]) -> None:
        self._native = native
        self._numpy = numpy
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in tensors}
        self._starts = sorted(storages)
        self._ends = [start + storages[start].untyped_storage().nbytes() for start in self._starts]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Returns the elements at the addresses."""
        mask = self._checked(addresses, mask, dtype.itemsize)
        return self._native.load(addresses, mask, other, dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> Any:
        """Writes the elements."""
        mask = self._checked(addresses, mask, values.dtype.itemsize)
        return self._native.store(addresses, values, mask)

    def atomic_rmw(self, op: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        """Changes the elements, one after the other."""
        mask = self._checked(addresses, mask, values.dtype.itemsize)
        return self._native.atomic_rmw(op, addresses, values, mask, order)

    def atomic_cas(self, addresses: Any, compared: Any, values: Any, order: Any) -> Any:
        """Exchanges the elements that are equal to others."""
        self._checked(addresses, True, values.dtype.itemsize)
        return self._native.atomic_cas(addresses, compared, values, order)

    def _checked(self, addresses: Any, mask: Any, itemsize: int) -> Any:
        """Returns the mask as an array."""
        numpy = self._numpy
        mask = numpy.broadcast_to(numpy.asarray(mask, dtype=bool), addresses.shape)
        used = addresses if mask.all() else addresses[mask]
        if used.size and not self._holds(int(used.min()), int(used.max()), itemsize):
            ends = self._numpy.asarray(self._ends, dtype=numpy.uint64)
            starts = self._numpy.asarray(self._starts, dtype=numpy.uint64)
            place = numpy.searchsorted(starts, used, side="right") - 1
            inside = (place >= 0) & (used + numpy.uint64(itemsize) <= ends[place])
            if not inside.all():
                raise MemoryError("it uses an address that is outside its tensors")
        return mask

    def _holds(self, first: int, last: int, itemsize: int) -> bool:
        """Returns True if one storage has the first and the last address."""
        place = bisect_right(self._starts, first) - 1
        return place >= 0 and last + itemsize <= self._ends[place]


_LIBDEVICE = "triton.language.extra.libdevice"


def run_kernel(
    function: Any,
    grid: tuple[int, ...],
    arguments: Mapping[str, Any],
    tensors: Iterable[torch.Tensor],
    left: WorkLeft,
) -> None:
    """Runs each program of a grid.

    Args:
        function: the ``JITFunction``.
        grid: one to three sizes.
        arguments: all arguments by name.
        tensors: those among them; they may be changed.
        left: the work that the kernel may do.

    Raises:
        Exception: whatever the kernel's code or the interpreter raises.
    """
    interpreter = import_module("triton.runtime.interpreter")
    if not hasattr(interpreter, "_LangPatchScope"):  # what it changes could not be undone
        installed = import_module("triton").__version__
        raise NotImplementedError(f"it needs Triton 3.6 or newer, and {installed} is installed")
    kernel = interpreter.InterpretedFunction(function.fn)
    memory = KernelMemory(interpreter._interpreter, interpreter.np, tensors)
    with _Interpretation(interpreter, memory, left).active(function.fn):
        kernel.run(grid=grid, warmup=False, **arguments)


class _Interpretation:
    """The changes of Triton while a kernel is interpreted."""

    def __init__(self, interpreter: Any, memory: KernelMemory, left: WorkLeft) -> None:
        self._interpreter = interpreter
        self._memory = memory
        self._left = left
        self._namespaces: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}

    @contextmanager
    def active(self, kernel: Any) -> Iterator[None]:
        """Makes the changes, and undoes them."""
        interpreter, numpy = self._interpreter, self._interpreter.np
        language = SimpleNamespace(__globals__={"tl": interpreter.tl, "core": interpreter.tl.core})
        scope = interpreter._patch_lang(language)
        patch = interpreter._patch_lang
        try:
            for owner, name, value in self._changes(interpreter):
                scope.set_attr(owner, name, value)
            self._enter(kernel.__globals__)
            with numpy.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            interpreter._patch_lang = patch
            for namespace, before in self._namespaces.values():
                for name in namespace.keys() - before.keys():
                    del namespace[name]
                namespace.update(before)
            scope.restore()

    def _changes(self, interpreter: Any) -> Iterator[tuple[Any, str, Any]]:
        """Yields an owner, the name of an attribute, and its new value."""
        floats, builder = NarrowFloats(interpreter), interpreter.interpreter_builder
        handle, numpy, tl = interpreter.TensorHandle, interpreter.np, interpreter.tl
        for name, position in COMPUTING.items():
            yield builder, name, self._counted(floats.computed(getattr(builder, name), position))
        for name in ("create_masked_load", "create_masked_store", "create_addptr"):
            yield builder, name, self._counted(getattr(builder, name))
        add = interpreter._ir.ATOMIC_OP.FADD
        for name in ("create_atomic_rmw", "create_atomic_cas"):
            atomic = floats.atomic(getattr(builder, name), add, self._memory)
            yield builder, name, self._counted(atomic)
        cast = floats.cast(builder.cast_impl)
        yield builder, "cast_impl", cast
        bfloat16 = lambda value: cast(builder.get_fp32(value), tl.bfloat16)  # noqa: E731
        yield builder, "get_bf16", bfloat16
        reduction = interpreter.ReduceScanOpInterface
        yield reduction, "apply", floats.reduced(reduction.apply)

        def rounded(handle: Any, to: Any, mode: Any, zero: Any = builder.create_fp_to_fp) -> Any:
            toward_zero = mode == interpreter._ir.ROUNDING_MODE.RTZ  # else to the nearest
            return zero(handle, to, mode) if toward_zero else cast(handle, to)

        def extern(*given: Any) -> Any:
            _, _, symbol, arguments, dtype, _ = given
            found = computed(symbol, [argument.data for argument in arguments])
            element = dtype.scalar
            return handle(found.astype(interpreter._get_np_dtype(element)), element)

        def error_function(arg: Any) -> Any:
            wide = floats.wide(arg)
            return handle(computed("__nv_erf", [wide.data]), wide.dtype)

        def converted(arg: Any, convert: Any = interpreter._implicit_cvt) -> Any:
            if isinstance(arg, bool):
                return tl.tensor(handle(numpy.array([arg]), tl.int1), tl.int1)
            if isinstance(arg, float):  # as JITFunction passes one
                single = numpy.array([arg], dtype=numpy.float32)
                return tl.tensor(handle(single, tl.float32), tl.float32)
            return convert(arg)

        def called(function: Any, *args: Any, **kwargs: Any) -> Any:
            """Calls a function that was compiled when a kernel called it."""
            self._enter(function.fn.__globals__)
            kwargs.pop("_semantic", None)
            return interpreter.InterpretedFunction(function.fn).rewrite()(*args, **kwargs)

        yield builder, "create_fp_to_fp", rounded
        yield builder, "create_extern_elementwise", extern
        yield builder, "create_erf", error_function
        yield interpreter, "_implicit_cvt", converted
        yield interpreter, "_interpreter", self._memory
        # The language is changed already, once for a launch and not for each call.
        yield interpreter, "_patch_lang", lambda _: SimpleNamespace(restore=lambda: None)
        yield import_module("triton.runtime.jit").JITFunction, "__call__", called

    def _counted(self, method: Any) -> Any:
        """Returns a method of the builder that takes its work from what is left."""
        kind = self._interpreter.TensorHandle

        def call(*args: Any, **kwargs: Any) -> Any:
            elements = sum([arg.data.size for arg in args if type(arg) is kind])
            self._left.spend(TRITON_OPERATION + TRITON_ELEMENT * elements)
            return method(*args, **kwargs)

        return call

    def _enter(self, namespace: dict[str, Any]) -> None:
        """Changes the names of a module that stand for Triton's functions.

        The interpreter changes Triton's modules alone, so that ``exp = tl.exp`` or a name imported
        from libdevice, which is empty but for the compiler, does not work.
        """
        if id(namespace) in self._namespaces:
            return
        self._namespaces[id(namespace)] = namespace, dict(namespace)
        for name, value in [*namespace.items()]:
            if isinstance(value, ModuleType) and value.__name__.endswith(".libdevice"):
                namespace[name] = self._libdevice()
            elif callable(value):
                namespace[name] = self._interpreted(value)
        for name, value in vars(self._interpreter).items():
            namespace.setdefault(name, value)  # a function that was rewritten before needs them

    def _libdevice(self) -> SimpleNamespace:
        module = import_module("triton.language.extra.cuda.libdevice")
        functions = {name: self._interpreted(value) for name, value in vars(module).items()}
        return SimpleNamespace(**functions)

    def _interpreted(self, value: Any) -> Any:
        """Returns a function of Triton's language that the interpreter's builder runs."""
        if getattr(value, "__module__", None) == _LIBDEVICE:
            libdevice = import_module("triton.language.extra.cuda.libdevice")
            value = getattr(libdevice, value.__name__, value)
        if not self._interpreter.tl.core.is_builtin(value):
            return value
        semantic = self._interpreter.interpreter_semantic
        return lambda *args, **kwargs: value(*args, **{**kwargs, "_semantic": semantic})
