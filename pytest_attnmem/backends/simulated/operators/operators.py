"""Runs the operators that reach the device: what each makes, allocates and writes.

The results come of PyTorch's own kernels for tensors without data, the memory of the rules of
``simulated/scratch``, and the values of the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import torch

from ....errors import CannotCompute, CannotSimulate, UnknownValue
from ....profiles import DeviceProfile
from ....torch_releases import Version
from ....values.compute import compute
from ....values.dispatcher import takes_numbers
from ....values.notes import Layouts
from ....values.repeated_note import RepeatedNote, repeated_note
from ....values.tape import Tape
from ..memory.storages import DeviceStorage
from ..pytorch_device.tensors import TensorMaker, nbytes_of, place, view
from ..scratch.deterministic import deterministic_plan, filled_through, is_deterministic
from ..scratch.op_plan import AllocationPlan, CudnnWorkspace, OpCall, Output, Planner
from ..shapes.result_layouts import laid_out, settle_target
from ..shapes.shape_rules import SHAPES
from .known_calls import KnownCall, KnownCalls, MadeTensor, key_of
from .twins import Twins

_aten = torch.ops.aten
_NUMBERS: Final = (int, float, bool, complex)
_UNKNOWN: Final = Layouts((), ())
#: Operators that CUDA's kernel lays out in another way than the CPU's.
_BY_COLUMNS: Final = frozenset({_aten.nonzero.default})
_SIZED_BY_VALUES: Final = torch.Tag.dynamic_output_shape
_TOLD_BY_VALUES: Final = torch.Tag.data_dependent_output
_BY_VALUES: Final = frozenset({_SIZED_BY_VALUES, _TOLD_BY_VALUES})
#: The error of PyTorch (``_lazy_init`` of torch/cuda/__init__.py).
_FORKED: Final = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use"
    " the 'spawn' start method"
)


class Running(Protocol):
    """The simulation that operators run in."""

    profile: DeviceProfile
    version: Version
    plan: Planner
    tape: Tape
    calls: KnownCalls
    collectives: Mapping[Any, Callable[..., Any]]
    inside: bool
    learn: Callable[[Sequence[Any], Any], None] | None
    """Learns of each operator that ran, in a traced run."""
    workspace_of_cudnn: CudnnWorkspace
    """Returns the bytes that cuDNN plans for a question, or why they are unknown."""
    mark_unknown: Callable[[str], None]
    """Records an operator whose scratch no rule knows."""
    explain_unknown: Callable[[str], None]
    """Records why the scratch of a call is unknown whose operator has a rule."""
    refuse: Callable[[str], CannotSimulate]
    """Records why the window's numbers are not enforced, and returns the error to raise."""

    def new_storage(self, nbytes: int, shape: Any, dtype: torch.dtype) -> DeviceStorage:
        """Returns a storage without a block."""

    def allocate(self, func: Any, plan: AllocationPlan, fresh: Sequence[DeviceStorage]) -> None:
        """Allocates what an operator needs."""

    def resize(self, func: Any, storage: DeviceStorage, nbytes: int) -> None:
        """Gives a storage a block of another size."""

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the values of a tensor, on the host."""

    def name_device(self) -> None:
        """Takes the program for one that names the device."""

    @property
    def is_active(self) -> bool:
        """Returns True inside a window, where programs may make tensors of the device."""


class Operators:
    """The operators of the device, for whichever simulation runs."""

    def __init__(self, maker: TensorMaker) -> None:
        self.maker = maker
        self.current: Running
        self.attentions = 0
        """The calls of attention that are being composed of other operators."""
        self.is_forked = False
        """True in a process that was forked from the one with the device."""
        self.is_shown = False
        """True while a session shows the device: then ``current`` is the session's."""

    def run(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Runs an operator that has come below autograd."""
        if self.is_forked:
            raise RuntimeError(_FORKED)
        running = self.current
        key = None if is_deterministic() else key_of(func, args, kwargs)
        known = None if key is None else running.calls.find(key)
        if known is None:
            out = self._run_first(running, key, func, args, kwargs)
            if running.learn is not None:
                running.learn(args, out)
            return out
        storages = [running.new_storage(one.nbytes, one.shape, one.dtype) for one in known.made]
        running.allocate(func, known.plan, storages)
        tape, note = running.tape, known.note
        call = None if note else tape.begin(func, args, kwargs, known.layouts or _UNKNOWN)
        make = self.maker.make
        made = [
            _on_host(one) if one.on_host else make(storage, one.shape, one.stride, one.dtype)
            for storage, one in zip(storages, known.made, strict=True)
        ]
        out = known.result(args, made)
        if call is not None:
            tape.end(call, out)
        elif note is not None:
            tape.repeat(note, [args[place] for place in note.places], made[0])
        if running.learn is not None:
            running.learn(args, out)
        return out

    def use_scratch(self, func: Any, *args: Any) -> None:
        """Allocates and frees what an operator takes beside the tensors that it is given."""
        running = self.current
        plan = self._plan_of(running, func, args, {}, (), False)
        if plan:
            running.allocate(func, plan, ())

    def refuse_layout(self, layout: str, func: Any, /, *_: Any, **__: Any) -> Any:
        """Refuses an operator of sparse or nested tensors, which are no view of one storage.

        Raises:
            CannotSimulate: always.
        """
        raise self.current.refuse(
            f"{func} of a {layout} tensor cannot be simulated; use backend='null' or 'cuda'"
        )

    def _run_first(
        self, running: Running, key: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not (running.is_active or self.maker.has_tensors):
            raise AssertionError("Torch not compiled with CUDA enabled")  # PyTorch's own
        on = kwargs.get("device")
        if type(on) is torch.device and on.type != "cuda":  # the result is elsewhere
            twins = Twins(self.maker, func)
            named = {name: twins.of(value) for name, value in kwargs.items()}
            return func(*map(twins.of, args), **{**named, "device": on})
        if on is not None and on.index:
            raise running.refuse(
                f"the simulated backend has one device, 'cuda', not '{on}'; use another backend"
            )
        given, args = args, _with_tensors(func, args)
        twins = Twins(self.maker, func)
        shown = self._result_without_data(running, twins, func, args, kwargs)
        resized = list(twins.changed())
        grown = [self._resize(running, func, *pair) for pair in resized]
        fresh = [*twins.fresh_in(shown)]
        made = [self._made(one) for one in fresh]
        found = self._plan_of(running, func, args, kwargs, made, any(grown))
        plan = tuple(map(Output, range(len(made)))) if found is None else found
        made = _settled(made, plan)
        storages = [running.new_storage(one.nbytes, one.shape, one.dtype) for one in made]
        running.allocate(func, plan, storages)
        tape = running.tape
        call = tape.begin(func, args, kwargs)
        tensors = [
            self._new(storage, one, twin)
            for storage, one, twin in zip(storages, made, fresh, strict=True)
        ]
        out = twins.replaced(shown, iter(tensors))
        tape.end(call, out)
        same = key is not None and given is args and found is not None and not resized
        if not same or any(twin.storage_offset() for twin in fresh):
            return out
        if not _BY_VALUES.isdisjoint(func.tags):
            return out
        known = KnownCall.of(out, args, tensors, made, plan)
        if known is not None:
            known.layouts = Layouts(tuple(call.inputs), tuple(call.outputs))
            if known.is_one:
                known.note = self._note_of(func, args, kwargs, known.layouts)
            running.calls.remember(key, known)
        return out

    def _note_of(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], layouts: Layouts
    ) -> RepeatedNote | None:
        """Returns the note that such calls share; it holds none of the tensors."""
        places = tuple(at for at, arg in enumerate(args) if isinstance(arg, torch.Tensor))
        if not all(self.maker.is_here(args[at]) for at in places):
            return None  # a seed is noted by what it is
        others = tuple(None if at in places else arg for at, arg in enumerate(args))
        return repeated_note(func, others, places, kwargs, layouts)

    def _result_without_data(
        self, running: Running, twins: Twins, func: Any, args: Any, kwargs: Any
    ) -> Any:
        """Returns what an operator does with tensors that have no data."""
        if _TOLD_BY_VALUES in func.tags:
            return self._computed(running, func, args, kwargs)
        if _SIZED_BY_VALUES in func.tags:
            return twins.shown(self._computed(running, func, args, kwargs), func in _BY_COLUMNS)
        kernel = SHAPES.get(func, func)
        given, named = twins.of(args), {name: twins.of(value) for name, value in kwargs.items()}
        try:
            out = kernel(*given, **named)
        except NotImplementedError:
            out = NotImplemented  # an error kept in a variable would hold the program's frames
        if out is NotImplemented:
            raise running.refuse(f"{func} cannot be simulated: PyTorch has no rule of its shapes")
        target = kwargs.get("out")
        if isinstance(target, torch.Tensor):
            settle_target(func, given, named["out"], target.shape)
        return laid_out(func, given, named, out)

    def _computed(self, running: Running, func: Any, args: Any, kwargs: Any) -> Any:
        """Returns what an operator returns on the host, whose sizes tell those of the device."""
        try:
            given = [self._on_host(running, arg) for arg in args]
            named = {name: self._on_host(running, arg) for name, arg in kwargs.items()}
            running.tape.replay.afford(func, tuple(given), named)
            return compute(func, tuple(given), named)
        except (CannotCompute, UnknownValue) as error:
            why = str(error)
        raise running.refuse(f"the result of {func} has a size that nobody knows: {why}")

    def _on_host(self, running: Running, arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return running.read(arg) if self.maker.is_here(arg) else arg
        if type(arg) in (list, tuple):
            return [self._on_host(running, one) for one in arg]
        return arg

    def _plan_of(
        self,
        running: Running,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        made: Sequence[MadeTensor],
        resized: bool,
    ) -> AllocationPlan | None:
        ghosts = tuple(self.maker.ghost(one.shape, one.stride, one.dtype) for one in made)
        call = OpCall(
            str(func), args, kwargs, ghosts, running.profile, is_deterministic(), running.version,
            running.workspace_of_cudnn, resized,
        )  # fmt: skip
        found = running.plan(call)
        if found is None:
            running.mark_unknown(str(func))
        elif call.deterministic:
            found = deterministic_plan(call, found)
            if found is None:
                running.explain_unknown(
                    f"{func} of deterministic algorithms on simulated; use null"
                )
        return found

    def _made(self, twin: torch.Tensor) -> MadeTensor:
        nbytes = twin.untyped_storage().nbytes()
        return MadeTensor(twin.shape, twin.stride(), twin.dtype, nbytes, False)

    def _new(self, storage: DeviceStorage, made: MadeTensor, twin: torch.Tensor) -> torch.Tensor:
        if made.on_host:
            return _on_host(made)
        tensor = self.maker.make(storage, made.shape, made.stride, made.dtype)
        offset = int(twin.storage_offset())
        return view(tensor, made.shape, made.stride, offset) if offset else tensor

    def _resize(
        self, running: Running, func: Any, tensor: torch.Tensor, twin: torch.Tensor
    ) -> bool:
        """Gives a tensor the sizes of its twin; returns True if it has other memory now."""
        shape, stride, offset = twin.shape, twin.stride(), int(tensor.storage_offset())
        stored = self.maker.stored_in(tensor)
        needed = nbytes_of(shape, stride, tensor.element_size())
        needed += offset * tensor.element_size() if needed else 0
        if needed <= (stored.nbytes if stored else 0):
            place(tensor, tensor.untyped_storage(), offset, shape, stride)
            return False
        storage = running.new_storage(needed, tuple(shape), tensor.dtype)
        running.resize(func, storage, needed)
        if not stored and is_deterministic():  # else the old memory took more
            running.allocate(func, filled_through(tensor.element_size()), ())
        whole = self.maker.make(storage, (needed,), (1,), torch.uint8)
        place(tensor, whole.untyped_storage(), offset, shape, stride)
        return True


def _on_host(made: MadeTensor) -> torch.Tensor:
    return torch.zeros(made.shape, dtype=made.dtype, device="cpu")


def _with_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments with tensors in the place of numbers that C++ code wrapped.

    Python gets the numbers, which some overloads refuse where they expect a tensor.
    """
    wrapped = [
        at
        for at, (arg, expected) in enumerate(zip(args, func._schema.arguments, strict=False))
        if type(arg) in _NUMBERS and isinstance(expected.type, torch.TensorType)
    ]
    if not wrapped or takes_numbers(func._opname):
        return args
    return tuple(
        torch.tensor(arg, device="cpu") if at in wrapped else arg for at, arg in enumerate(args)
    )


def _settled(made: list[MadeTensor], plan: AllocationPlan) -> list[MadeTensor]:
    """Returns the tensors with the bytes that the plan gives them; a seed is on the host."""
    planned = {step.index: step.nbytes for step in plan if isinstance(step, Output)}
    found = []
    for index, one in enumerate(made):
        nbytes = planned.get(index)
        on_host = index not in planned and not one.shape and not one.dtype.is_floating_point
        found.append(
            one._replace(nbytes=nbytes if nbytes is not None else one.nbytes, on_host=on_host)
        )
    return found


_storage: Any = torch.UntypedStorage
_base: Any = torch._C.StorageBase
_resized = "its storage got another size without an operator"


def storage_methods(operators: Operators) -> dict[tuple[Any, str], Any]:
    """Returns the methods by owner and name."""
    maker = operators.maker

    def stored(storage: Any) -> DeviceStorage | None:
        found = maker.stored_at(storage.data_ptr()) if storage.device == maker.device else None
        return found if isinstance(found, DeviceStorage) else None

    def resize_(storage: Any, size: int) -> Any:
        found = stored(storage)
        if found is None:
            return _resize(storage, size)
        if size != found.nbytes:
            running = operators.current
            running.resize("resize_", found, size)
            whole = torch.empty(0, dtype=torch.uint8, device=maker.device).set_(storage)
            running.tape.lose(whole, _resized)
        return storage

    def nbytes(storage: Any) -> int:
        found = stored(storage)
        return _nbytes(storage) if found is None else found.nbytes

    _resize: Callable[[Any, int], Any] = _storage.resize_
    _nbytes: Callable[[Any], int] = _storage.nbytes
    return {
        (_storage, "__new__"): _new_on(maker.device),
        (_storage, "resize_"): resize_,
        **dict.fromkeys(((_storage, "nbytes"), (_storage, "size")), nbytes),
    }


def _new_on(own: torch.device) -> Any:
    """Returns what makes a storage: of a number of bytes, or of a list of them."""

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != own.type:
            return _base.__new__(cls, *args, device=device, **kwargs)
        if args and not isinstance(args[0], int):
            return torch.tensor(args[0], dtype=torch.uint8, device=device).untyped_storage()
        return torch.empty(*args[:1] or (0,), dtype=torch.uint8, device=device).untyped_storage()

    return staticmethod(new)
