"""The tracer that PyTorch's allocator calls at each free, called here as PyTorch calls it."""

SCRIPT = """
import ctypes
from ctypes import POINTER, c_byte, c_size_t, c_void_p, cast
runtime = ctypes.CDLL(None)
make, take = runtime.attnmem_null_tracer, runtime.attnmem_null_take_freed
make.restype, make.argtypes = c_void_p, [c_size_t, c_size_t]
take.restype, take.argtypes = c_size_t, [c_void_p, c_size_t]
count = ctypes.c_ulong.in_dll(runtime, "attnmem_null_frees")
addresses = (c_size_t * 4096)()
def taken(most=4096):
    return addresses[:take(addresses, most)]
refused, tracer = [make(3, 3), make(0, 0)], make(3, 1)
interpreter = cast(tracer, POINTER(c_void_p))[0]  # an object, which points to its functions
table = cast(cast(interpreter, POINTER(c_void_p))[0], POINTER(c_void_p))
ignored, free, other = (
    ctypes.CFUNCTYPE(None, c_void_p, c_byte, c_size_t)(table[i]) for i in range(3))
before = count.value
found = [taken()]
for function, address in ((free, 64), (ignored, 1), (free, 32), (other, 2), (free, 64)):
    function(interpreter, 1, address)
found += [count.value - before, taken(2), taken(2), taken()]
for address in range(3000):  # more than were remembered at first
    free(interpreter, 1, address)
found += [taken(1000) == [*range(1000)], taken() == [*range(1000, 3000)], count.value - before]
answer(refused, found)
"""


def test_frees_are_taken_once_in_their_order(under):
    refused, found = under(SCRIPT)
    assert refused == [None, None]
    assert found == [[], 3, [64, 32], [64], [], True, True, 3003]
