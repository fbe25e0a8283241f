"""Plain tensors of the device: their storages have the true size, an address and no memory.

DLPack makes them. A tensor of the host, in the memory of a token, is exported, and its description
is overwritten: the device, the address, the dtype, the sizes. What is imported of it owns the token
as its storage does, so the end of the token tells when the storage ends. A weak reference to
``untyped_storage()`` would be another owner, and autograd adds gradients in place only to those
that nobody else owns; a deleter in Python would run while an exception is on its way, and end it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

import torch

from ....errors import CannotSimulate

#: More bytes than most processes ever allocate in all. Addresses beyond the range are numbers that
#: nobody else has, and that nobody may read.
_RANGE: Final = 1 << 45
_NORESERVE: Final = 0x4000
#: The allocator of CUDA aligns to so many bytes.
_STEP: Final = 512


class Addresses:
    """Hands out each address once, so that one tells a storage from all others of the process."""

    def __init__(self) -> None:
        self._mapped = _mapped()
        self._next = _RANGE if self._mapped is None else _start_of(self._mapped)

    def take(self, nbytes: int) -> int:
        """Returns the address of so many bytes."""
        address = self._next
        self._next += -(-nbytes // _STEP) * _STEP
        return address


def _mapped() -> mmap.mmap | None:
    """Returns memory that takes no room; None where the system has none of its kind to give."""
    if not sys.platform.startswith("linux"):
        return None
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    try:
        return mmap.mmap(-1, _RANGE, flags=flags, prot=mmap.PROT_READ)
    except (OSError, ValueError, OverflowError):  # a limit of the process's addresses
        return None


class _Buffer(ctypes.Structure):
    """``Py_buffer``, of which the first field counts."""

    _fields_ = (("buf", ctypes.c_void_p), ("rest", ctypes.c_void_p * 12))


def _start_of(mapped: mmap.mmap) -> int:
    found = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapped), ctypes.byref(found), 0)
    return int(found.buf)


_META: Final = torch.DispatchKey.Meta
_CPU: Final = torch.DispatchKey.CPU
_AS_STRIDED: Final = torch.ops.aten.as_strided.default
_SET: Final = torch.ops.aten.set_.source_Storage_storage_offset


#: The number of CUDA's devices in DLPack.
_CUDA_IN_DLPACK: Final = 2


class Stored(Protocol):
    """The bytes of one storage of the device."""

    nbytes: int
    pointer: int
    """The address of the first one; 0 if there are none. The maker of the tensor sets it."""

    def end(self) -> None:
        """Learns that the storage is gone."""


class _Token(bytearray):
    """Lives as long as a storage."""

    __slots__ = ("makers", "stored")
    stored: Stored
    makers: TensorMaker

    def __del__(self) -> None:
        self.makers.forget(self.stored)


class _Described(ctypes.Structure):
    """``DLTensor`` of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


_SIZE: Final = ctypes.sizeof(_Described)
_NAME: Final = b"dltensor"
_BYTE: Final = torch.uint8
_new_token: Final = _Token


def _reader() -> Any:
    function = ctypes.pythonapi.PyCapsule_GetPointer
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return function


_pointer_in: Final = _reader()
_move: Final = ctypes.memmove


class _Form(NamedTuple):
    """A description of tensors of one layout, and what it points to."""

    described: _Described
    at: Any
    nbytes: int
    sizes: Any


class TensorMaker:
    """Makes the tensors of the device, and finds the storages of those that live."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        self._addresses = Addresses()
        self._stored: dict[int, Stored] = {}
        self._forms: dict[Any, _Form] = {}
        self._dtypes: dict[torch.dtype, int] = {}

    def make(
        self, stored: Stored, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """Returns a tensor at the start of a new storage, which may be larger than the tensor."""
        key = shape, stride, dtype
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._form_of(tuple(shape), tuple(stride), dtype)
        nbytes = stored.nbytes
        if nbytes != form.nbytes:
            whole = self.make(stored, (nbytes,), (1,), _BYTE)
            made = self.make(_Nothing(), (0,), (1,), dtype)
            place(made, whole.untyped_storage(), 0, shape, stride)
            return made
        token = _new_token(b"0")
        token.stored, token.makers = stored, self
        if nbytes and not stored.pointer:
            stored.pointer = pointer = self._addresses.take(nbytes)
            self._stored[pointer] = stored
        form.described.data = stored.pointer
        capsule = torch._C._to_dlpack(torch.frombuffer(token, dtype=_BYTE))
        _move(_pointer_in(capsule, _NAME), form.at, _SIZE)
        return torch._C._from_dlpack(capsule)

    def ghost(
        self, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """Returns a tensor whose storage nobody allocates: it shows a layout."""
        nothing = _Nothing()
        nothing.nbytes, nothing.pointer = nbytes_of(shape, stride, dtype.itemsize), 1
        return self.make(nothing, shape, stride, dtype)

    def forget(self, stored: Stored) -> None:
        """Ends a storage."""
        self._stored.pop(stored.pointer, None)
        stored.end()

    def stored_in(self, tensor: torch.Tensor) -> Stored | None:
        """Returns the storage of a tensor; None for one without bytes."""
        if tensor.numel():
            start = tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
        else:  # the Python object of a storage is an owner of it, for so long
            start = tensor.untyped_storage().data_ptr()
        return self._stored.get(start)

    def stored_at(self, pointer: int) -> Stored | None:
        """Returns the storage that begins at an address."""
        return self._stored.get(pointer)

    @property
    def has_tensors(self) -> bool:
        """Returns True if a storage with bytes is alive."""
        return bool(self._stored)

    def is_here(self, value: Any) -> bool:
        """Returns True for a tensor of the device."""
        return isinstance(value, torch.Tensor) and value.is_cuda

    def _form_of(
        self, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> _Form:
        rank = len(shape)
        sizes = (ctypes.c_int64 * (2 * rank + 1))(*shape, *stride)
        start = ctypes.addressof(sizes)
        described = _Described(
            0, _CUDA_IN_DLPACK, 0, rank, self._number_of(dtype), start, start + 8 * rank, 0
        )
        nbytes = nbytes_of(shape, stride, dtype.itemsize)
        return _Form(described, ctypes.byref(described), nbytes, sizes)

    def _number_of(self, dtype: torch.dtype) -> int:
        """Returns DLPack's number of a dtype: the one in what PyTorch exports of the host.

        Raises:
            CannotSimulate: it has none.
        """
        found = self._dtypes.get(dtype)
        if found is None:
            try:
                capsule = torch._C._to_dlpack(torch.empty(1, dtype=dtype, device="cpu"))
            except BufferError as error:  # DLPack has no such type
                raise CannotSimulate(
                    f"tensors of {dtype} cannot be simulated; use backend='null' or 'cuda'"
                ) from error
            found = _Described.from_address(_pointer_in(capsule, _NAME)).dtype
            self._dtypes[dtype] = found
        return found


class _Nothing:
    """A storage without bytes, or without memory."""

    __slots__ = ("nbytes", "pointer")

    def __init__(self) -> None:
        self.nbytes = self.pointer = 0

    def end(self) -> None:
        """Does nothing."""


def nbytes_of(shape: Sequence[int], stride: Sequence[int], itemsize: int) -> int:
    """Returns the bytes of a storage that ends with a tensor's last element."""
    if 0 in shape:
        return 0
    return (1 + sum([(n - 1) * step for n, step in zip(shape, stride, strict=True)])) * itemsize


def place(
    tensor: torch.Tensor,
    storage: torch.UntypedStorage,
    offset: int,
    shape: Sequence[int],
    stride: Sequence[int],
) -> None:
    """Gives a tensor another storage, and a place in it."""
    _SET._op_dk(_CPU, tensor, storage, offset, shape, stride)  # it reads and writes no element


def view(
    tensor: torch.Tensor, shape: Sequence[int], stride: Sequence[int], offset: int
) -> torch.Tensor:
    """Returns a tensor in the same storage."""
    made: torch.Tensor = _AS_STRIDED._op_dk(_META, tensor, shape, stride, offset)
    return made
