"""The calls that the runtime does not know, by name; some are of cuDNN, without its library."""


def test_calls_are_counted_by_name_and_written_as_far_as_they_fit(under):
    script = """
import ctypes
from ctypes import c_size_t, c_void_p
cuda = ctypes.CDLL(None)
write = cuda.attnmem_null_unknown
write.restype, write.argtypes = c_size_t, [c_void_p, c_size_t]
def written(size):
    text = ctypes.create_string_buffer(b"kept", 99)
    return write(text, size), text.value.decode()
found = [write(None, 0), written(9)]
descriptor, handle = c_void_p(), c_void_p(7)
found += [cuda.cudnnBackendCreateDescriptor(17, ctypes.byref(descriptor)), descriptor.value]
found += [cuda.cudnnCreate(ctypes.byref(handle)), handle.value, cuda.cudnnCTCLoss(None)]
found += [cuda.cudnnCTCLoss(None)]
text = "cudnnCTCLoss 2\\ncudnnCreate 1\\n"
found += [write(None, 0) == len(text), written(99)[1] == text]
answer(*found, written(15), counts.unknown_calls())
"""
    missing = 1001  # CUDNN_STATUS_NOT_INITIALIZED: no cuDNN is loaded in this process
    assert under(script, ATTNMEM_TEST="a process without torch") == (
        *(0, [0, ""], missing, None),
        *(missing, None, missing, missing, True, True),
        *([29, "cudnnCTCLoss 2"], {"cudnnCTCLoss": 2, "cudnnCreate": 1}),
    )
