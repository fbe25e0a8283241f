"""cuDNN's backend API as its frontend calls it, for a convolution: made, remembered or refused."""

PRELUDE = """
import ctypes, resource
from ctypes import byref, c_float, c_int, c_int64, c_void_p
from importlib.util import find_spec
(nvidia,) = find_spec("nvidia.cudnn").submodule_search_locations
ctypes.CDLL(f"{nvidia}/lib/libcudnn.so.9", mode=ctypes.RTLD_GLOBAL)
cudnn = ctypes.CDLL(None)
plans = ctypes.c_ulong.in_dll(cudnn, "attnmem_null_cudnn_plans")
HANDLE, DTYPE, INT64, FLOAT, HEURISTIC_MODE, DESCRIPTOR = 0, 1, 3, 4, 8, 15
def new(kind):
    p = c_void_p()
    assert cudnn.cudnnBackendCreateDescriptor(kind, byref(p)) == 0
    return p
def set(d, name, kind, *values, of=c_int64):
    values = (of * len(values))(*values)
    return cudnn.cudnnBackendSetAttribute(d, name, kind, c_int64(len(values)), values)
def get(d, name, kind, values, count=None):
    found = c_int64(-9)
    count = len(values) if count is None else count
    code = cudnn.cudnnBackendGetAttribute(d, name, kind, c_int64(count), byref(found), values)
    return code, found.value
def made(kind, *attributes):
    d = new(kind)
    codes = [set(d, *of[:-1], of=of[-1]) for of in attributes]
    code = cudnn.cudnnBackendFinalize(d)
    assert not any(codes) and code == 0, (kind, codes, code)
    return d
def tensor(id, *shape):
    b, c, h, w = shape
    return made(17, (900, INT64, 16, c_int64), (901, DTYPE, 2, c_int), (906, INT64, id, c_int64),
                (902, INT64, *shape, c_int64), (903, INT64, c * h * w, 1, c * w, c, c_int64))
def graph(channels):
    x, w = tensor(1, 2, channels, 16, 16), tensor(2, 64, channels, 3, 3)
    y = tensor(3, 2, 64, 14, 14)
    pairs = [(name, INT64, *two, c_int64) for name, two in (
        (102, (1, 1)), (103, (1, 1)), (104, (0, 0)), (105, (0, 0)))]
    pairs += [(106, INT64, 2, c_int64), (100, DTYPE, 0, c_int), (101, 7, 1, c_int)]
    convolution = made(1, *pairs)
    parts = [(name, DESCRIPTOR, d, c_void_p) for name, d in (
        (702, convolution), (703, w), (704, x), (705, y))]
    op = made(10, (700, FLOAT, 1.0, c_float), (701, FLOAT, 0.0, c_float), *parts)
    return made(15, (800, HANDLE, None, c_void_p), (801, DESCRIPTOR, op, c_void_p))
def heuristics(graph):
    return made(4, (201, DESCRIPTOR, graph, c_void_p), (200, HEURISTIC_MODE, 1, c_int))
def destroyed(*descriptors):
    return [cudnn.cudnnBackendDestroyDescriptor(d) for d in descriptors]
def chosen(h):
    "Returns what cuDNN answered, and its configurations."
    code, count = get(h, 202, DESCRIPTOR, None, 0)
    configurations = (c_void_p * count)(*[new(3).value for _ in range(count)])
    again, found = get(h, 202, DESCRIPTOR, configurations)  # it may leave some out
    return [code, again, count, found], [c_void_p(c) for c in configurations[:found]]
def workspace(configuration):
    plan, found = new(5), (c_int64 * 1)(-9)
    codes = [set(plan, 401, DESCRIPTOR, configuration.value, of=c_void_p)]
    codes += [set(plan, 400, HANDLE, 64, of=c_void_p), cudnn.cudnnBackendFinalize(plan)]
    codes += [*get(plan, 402, INT64, found), *destroyed(plan)]
    return codes, found[0]
def number(configuration):
    "Returns the global index of its engine."
    engine, found = new(2), (c_int64 * 1)(-9)
    engines = (c_void_p * 1)(engine.value)
    codes = [*get(configuration, 300, DESCRIPTOR, engines), *get(engine, 1301, INT64, found)]
    return codes, found[0], *destroyed(engine)
"""

PLANNED = """
unknown = cudnn.cudnnCTCLoss(None)  # counted before: the answers are remembered all the same
on = graph(5)
h = heuristics(on)
codes, configurations = chosen(h)
answers, workspaces = zip(*[workspace(c) for c in configurations])
largest = configurations.pop(workspaces.index(max(workspaces)))
codes += destroyed(h, on, *configurations)  # what the last one needs is still there
numbers = number(largest) if ASKED else None
codes += destroyed(largest)
answer(codes, answers, workspaces, numbers, plans.value, counts.unknown_calls())
"""


def test_a_plan_is_remembered_and_made_only_if_something_else_is_asked(under, tmp_path):
    def run(asked, folder=str(tmp_path)):
        script = f"ASKED = {asked}" + PRELUDE + PLANNED
        *found, made, unknown = under(script, "H100", ATTNMEM_NULL_PLANS=folder)
        assert unknown == {"cudnnCTCLoss": 1}
        return made, found

    made, (codes, answers, workspaces, _) = run(asked=False)
    count = len(answers)
    assert made == count > 1
    assert codes == [0, 0, codes[2], count, *[0] * (2 + count)]
    assert codes[2] >= count
    assert answers == [[0, 0, 0, 0, 1, 0]] * count
    assert max(workspaces) > 0 == min(workspaces)
    assert run(asked=False) == (0, [codes, answers, workspaces, None])
    again, found = run(asked=True)
    assert (again, found[:3]) == (0, [codes, answers, workspaces])
    assert run(asked=True, folder="") == (made, found)  # the library says the same at once
    assert run(asked=True) == (0, found)
    numbers, index, destroyed = found[3]
    assert (numbers, destroyed) == ([0, 1, 0, 1], 0)
    assert index >= 0


def test_a_file_that_cannot_be_kept_is_done_without(under, tmp_path):
    """A full disk, a name that is too long, and lines that are no answers."""

    def run(before="", folder=str(tmp_path)):
        script = PRELUDE + before + "ASKED = False\n" + PLANNED
        *found, made, _ = under(script, "H100", ATTNMEM_NULL_PLANS=folder)
        return made, found

    full = "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    made, found = run(full)
    (plans,) = tmp_path.iterdir()
    assert made > 0
    assert plans.read_bytes() == b""
    assert run(folder=f"{tmp_path}/{'long/' * 900}") == (made, found)
    plans.write_text("\n\nword\na 12345678\na 123\na 1234567x\na 123456789\n")
    assert run() == (made, found)
    assert run() == (0, found)
    whole = plans.read_bytes()
    for damaged in (whole.replace(b"\n", b"0\n"), whole.replace(b" 0 ", b" 1 ")):
        plans.write_bytes(damaged)  # the checksums are too long, or those of other lines
        assert run() == (made, found)
    plans.write_bytes(whole[: len(whole) // 2] + b"\0\xff" * 5000)
    again, same = run()
    assert (again > 0, same) == (True, found)
    assert run() == (0, found)


REFUSED = """
on = graph(5)
engine, empty, plain = map(new, (2, 4, 17))
codes = [set(engine, 1300, DESCRIPTOR, on.value, of=c_void_p), set(engine, 1301, INT64, 99999)]
refused = [cudnn.cudnnBackendFinalize(d) for d in (engine, engine, empty)]
refused += [set(new(2), 1300, DESCRIPTOR, None, of=c_void_p), set(plain, 901, 26, 1, 1)]
refused += [set(plain, 902, INT64), get(engine, 1301, INT64, (c_int64 * 1)())[0]]
refused += [get(plain, 900, DESCRIPTOR, (c_void_p * 2)())[0]]
h = heuristics(on)
some = (c_void_p * 3)(new(3).value, None, new(3).value)
filled = [get(h, 202, DESCRIPTOR, some), workspace(c_void_p(some[0]))[0]]
answer(codes, refused, filled, plans.value, counts.unknown_calls())
"""


def test_what_the_library_refuses_is_refused_again(under, tmp_path):
    def run():
        return under(PRELUDE + REFUSED, "H100", ATTNMEM_NULL_PLANS=str(tmp_path))

    unsupported, bad, unfinished, kind = 3000, 2000, 1001, 2010  # CUDNN_STATUS_…
    codes, refused, filled, made, unknown = first = run()
    assert codes == [0, 0]
    assert refused == [unsupported] * 2 + [bad] * 2 + [kind, bad, unfinished, unfinished]
    assert filled == [[0, 1], [0, 0, 0, 0, 1, 0]]  # what comes after a null pointer is not filled
    assert (made, unknown) == (1, {})
    assert run() == (*first[:3], 0, {})
