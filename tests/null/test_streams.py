"""Streams and events through the C interface: what they are, and which handles are refused."""

PRELUDE = """
import ctypes
from ctypes import byref, c_float, c_int, c_uint, c_ulonglong, c_void_p
cuda = ctypes.CDLL(None)
HANDLE = 400  # cudaErrorInvalidResourceHandle
def made(call, *more):
    p = c_void_p()
    code = call(byref(p), *more)
    return p if code == 0 else f"error {code}"
def told(call, handle, kind=c_int):
    value = kind(99)
    code = call(handle, byref(value))
    return value.value if code == 0 else f"error {code}"
"""


def test_a_stream_tells_what_it_was_made_with(under):
    script = """
cuda.cudaSetDevice(1)
streams = [made(cuda.cudaStreamCreate), made(cuda.cudaStreamCreateWithFlags, 1)]
streams += [made(cuda.cudaStreamCreateWithPriority, 0, p) for p in (-3, -9, 4)]
refused = [made(cuda.cudaStreamCreateWithFlags, 2)]
cuda.cudaSetDevice(0)
default = [None, c_void_p(1), c_void_p(2)]
queries = [("GetFlags", c_uint), ("GetPriority", c_int)]
if hasattr(cuda, "cudaStreamGetDevice"):
    queries += [("GetDevice", c_int)]
rows = [[told(getattr(cuda, f"cudaStream{name}"), s, kind) for name, kind in queries]
        for s in (*streams, *default)]
ids = [told(cuda.cudaStreamGetId, s, c_ulonglong) for s in (*default, *streams)]
idle = [call(s) for s in (*default, *streams) for call in (
    cuda.cudaStreamQuery, cuda.cudaStreamSynchronize, cuda.cuStreamSynchronize)]
ended = [cuda.cudaStreamDestroy(s) for s in (*streams, *default)]
least, greatest = c_int(), c_int()
cuda.cudaDeviceGetStreamPriorityRange(byref(least), byref(greatest))
answer(rows, ids[:3], len(set(ids)), set(idle) == {0}, refused, ended,
       [least.value, greatest.value, cuda.cudaGetLastError()])
"""
    rows, ids, *rest = under(PRELUDE + script, devices=2)
    made = [[0, 0, 1], [1, 0, 1], [0, -3, 1], [0, -5, 1], [0, 0, 1]]
    assert [row[:2] for row in rows] == [row[:2] for row in made] + [[0, 0]] * 3
    assert [row[2:] for row in rows] in ([[]] * 8, [[1]] * 5 + [[0]] * 3)  # since CUDA 12.8
    assert ids == [1, 1, 2]  # the stream without a name is the legacy stream
    assert rest == [7, True, ["error 1"], [0] * 5 + [400] * 3, [0, -5, 400]]


def test_an_event_is_timed_if_it_was_made_so_and_recorded(under):
    script = """
kinds = [made(cuda.cudaEventCreateWithFlags, flags) for flags in (8, 4)]
a, b, untimed = (made(cuda.cudaEventCreateWithFlags, flags) for flags in (0, 1, 6))
fresh = made(cuda.cudaEventCreate)
codes = [cuda.cudaEventRecord(a, None), cuda.cudaEventRecordWithFlags(b, None, 0)]
codes += [cuda.cudaEventRecord(untimed, None)]
def elapsed(start, end):
    value = c_float()
    code = cuda.cudaEventElapsedTime(byref(value), start, end)
    return value.value if code == 0 else f"error {code}"
times = [elapsed(*pair) for pair in (
    (a, b), (b, a), (a, untimed), (untimed, a), (a, fresh), (fresh, a), (a, None), (None, a))]
ready = [call(a) for call in (cuda.cudaEventQuery, cuda.cudaEventSynchronize)]
ready += [cuda.cudaStreamWaitEvent(None, a, 0)]
nothing = [call(None) for call in (
    cuda.cudaEventQuery, cuda.cudaEventSynchronize, cuda.cudaEventDestroy)]
nothing += [cuda.cudaEventRecord(None, None), cuda.cudaStreamWaitEvent(None, None, 0)]
ended = [cuda.cudaEventDestroy(e) for e in (a, b, untimed, fresh)]
answer(kinds, codes, times, ready, nothing, ended)
"""
    refused = "error 400"
    assert under(PRELUDE + script) == (
        ["error 1", "error 1"],  # an event between processes is without time
        [0, 0, 0],
        [1.0, -1.0, *[refused] * 6],
        [0, 0, 0],
        [400] * 5,
        [0] * 4,
    )


def test_work_of_the_host_is_done_in_its_stream_and_a_capture_is_refused(under):
    script = """
seen = []
back = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)(lambda *given: seen.append(given))
plain = ctypes.CFUNCTYPE(None, c_void_p)(lambda *given: seen.append(given))
stream = made(cuda.cudaStreamCreate)
codes = [cuda.cudaStreamAddCallback(stream, back, c_void_p(7), 0)]
codes += [cuda.cudaLaunchHostFunc(stream, plain, c_void_p(8))]
codes += [cuda.cudaStreamAddCallback(stream, back, None, 1)]
codes += [cuda.cudaStreamAddCallback(stream, None, None, 0)]
codes += [cuda.cudaLaunchHostFunc(stream, None, None)]
done = seen == [(stream.value, 0, 7), (8,)]
before = counts.unknown_calls()
capture = [cuda.cudaStreamBeginCapture(stream, 0), told(cuda.cudaStreamIsCapturing, stream)]
capture += [cuda.cudaGetLastError()]
modes = []
for mode in (2, 1, 0):
    value = c_int(mode)
    cuda.cudaThreadExchangeStreamCaptureMode(byref(value))
    modes.append(value.value)
id, status = c_ulonglong(9), c_int(9)
info = getattr(cuda, "cudaStreamGetCaptureInfo_v3", None) or cuda.cudaStreamGetCaptureInfo
capture += [info(stream, byref(status), byref(id), None, None, None, None)]
capture += [status.value, id.value, info(stream, byref(status), None, None, None, None, None)]
answer(codes, done, before, capture, modes, counts.unknown_calls())
"""
    assert under(PRELUDE + script) == (
        [0, 0, 1, 1, 1],
        True,
        {},
        [801, 0, 801, 0, 0, 0, 0],
        [0, 2, 1],
        {"cudaStreamBeginCapture": 1},
    )
