"""cuDNN's functions that take a handle: they succeed without scratch, or are counted."""

import json

PRELUDE = """
import ctypes
from ctypes import byref, c_int, c_int64, c_size_t, c_void_p
import torch
cudnn = ctypes.CDLL(None)
launched = ctypes.c_ulong.in_dll(cudnn, "attnmem_null_foreign_launches")
BAD_PARAM, NOT_SUPPORTED = 2000, 3000
"""

#: They have no argument for a workspace, in cuDNN's documentation.
WITHOUT_SCRATCH = [
    *("BatchNormalizationForwardInference", "SpatialTfGridGeneratorForward"),
    *("SpatialTfGridGeneratorBackward", "SpatialTfSamplerForward", "SpatialTfSamplerBackward"),
    *("PoolingForward", "BatchNormalizationForwardTrainingEx", "BatchNormalizationBackwardEx"),
]
#: Their scratch depends on the device.
REFUSED = [
    *("CTCLoss", "CTCLoss_v8", "GetCTCLossWorkspaceSize", "GetCTCLossWorkspaceSize_v8"),
    *("DropoutGetStatesSize", "GetRNNTempSpaceSizes", "RNNForward"),
    *("RNNBackwardData_v8", "RNNBackwardWeights_v8", "ConvolutionBiasActivationForward"),
    *(f"Convolution{way}" for way in ("Forward", "BackwardData", "BackwardFilter")),
    *(
        form.format(way)
        for way in ("Forward", "BackwardData", "BackwardFilter")
        for form in (
            *("FindConvolution{}AlgorithmEx", "GetConvolution{}Algorithm_v7"),
            "GetConvolution{}WorkspaceSize",
        )
    ),
]


def test_calls_with_unknown_scratch_are_counted_and_the_others_succeed(under):
    script = """
def called(names):
    return [getattr(cudnn, "cudnn" + name)(None) for name in names]
before = launched.value
succeeded, runs = called(WITHOUT), launched.value - before
descriptors = called(("SetDropoutDescriptor", "RestoreDropoutDescriptor"))
known = counts.unknown_calls()
refused = called(REFUSED)
counted = counts.unknown_calls()
sizes = []
for name, count in (("BatchNormalizationForwardTrainingExWorkspaceSize", 8),
                    ("BatchNormalizationBackwardExWorkspaceSize", 10),
                    ("BatchNormalizationTrainingExReserveSpaceSize", 5)):
    size, ask = c_size_t(9), getattr(cudnn, "cudnnGet" + name)
    sizes.append([ask(*[c_void_p()] * count, byref(size)), size.value])
answer(succeeded, runs, descriptors, known, refused, [counted == {"cudnn" + n: 1 for n in REFUSED}],
       sizes, [counts.unknown_calls()[n] for n in counts.unknown_calls() if n not in counted])
"""
    given = f"WITHOUT, REFUSED = {json.dumps([WITHOUT_SCRATCH, REFUSED])}\n"
    assert under(given + PRELUDE + script) == (
        *([0] * 8, 8, [0, 0], {}),
        *([1001] * 22, [True]),
        *([[0, 0]] * 3, [1] * 3),
    )


def test_a_handle_keeps_its_stream_and_a_descriptor_is_not_executed(under):
    script = """
handle, stream = c_void_p(), c_void_p(7)
codes = [cudnn.cudnnCreate(byref(handle)), cudnn.cudnnGetStream(handle, byref(stream))]
streams = [stream.value]
codes += [cudnn.cudnnSetStream(handle, c_void_p(64)), cudnn.cudnnGetStream(handle, byref(stream))]
streams += [stream.value]
codes += [cudnn.cudnnSetStream(None, None), cudnn.cudnnGetStream(None, byref(stream))]
ENGINE, PLAN, PACK, TENSOR, INT64, UNKNOWN = 2, 5, 16, 17, 3, 99
def made(kind):
    p = c_void_p()
    return p if cudnn.cudnnBackendCreateDescriptor(kind, byref(p)) == 0 else None
engine, plan, pack, tensor = map(made, (ENGINE, PLAN, PACK, TENSOR))
value, found = c_int64(5), c_int64(-9)
set_one = lambda d, *of: cudnn.cudnnBackendSetAttribute(d, 1, *of)
get = lambda d, *of: cudnn.cudnnBackendGetAttribute(d, 1, *of)
bad = [set_one(engine, INT64, c_int64(-1), byref(value)), set_one(engine, INT64, c_int64(1), None)]
of_pack = [set_one(pack, INT64, c_int64(1), byref(value)), cudnn.cudnnBackendFinalize(pack)]
known = counts.unknown_calls()
unknown = [set_one(engine, UNKNOWN, c_int64(1), byref(value))]
unknown += [get(engine, UNKNOWN, c_int64(1), byref(found), byref(value))]
unknown += [get(pack, INT64, c_int64(1), byref(found), byref(value))]
executed = [cudnn.cudnnBackendExecute(handle, d, pack) for d in (plan, engine, None)]
runs = ctypes.c_ulong.in_dll(cudnn, "attnmem_null_cudnn_runs").value
no_kind = c_void_p(7)
codes += [cudnn.cudnnBackendCreateDescriptor(9999, byref(no_kind)) != 0, no_kind.value]
codes += [cudnn.cudnnBackendDestroyDescriptor(d) for d in (engine, plan, pack, tensor)]
codes += [cudnn.cudnnDestroy(handle)]
answer(codes, streams, bad, of_pack, known, unknown, executed, runs, counts.unknown_calls())
"""
    bad, unsupported = 2000, 3000
    assert under(PRELUDE + script) == (
        [0, 0, 0, 0, bad, bad, True, None, *[0] * 5],
        [None, 64],
        [bad, bad],
        [0, 0],
        {},
        [unsupported] * 3,
        *([0, bad, bad], 1),
        {"cudnnBackendSetAttribute": 1, "cudnnBackendGetAttribute": 2},
    )


def test_descriptors_of_the_library_pass_through_and_ours_have_its_answers(under):
    """Parts of cuDNN call each other by these names, with descriptors of their own."""
    script = """
real = ctypes.CDLL("libcudnn.so.9")
TENSOR, DTYPE_OF, INT64 = 17, 1, 3
ALIGNMENT, DTYPE, DIMENSIONS, STRIDES, ID = 900, 901, 902, 903, 906
def tensor(library):
    p = c_void_p()
    assert library.cudnnBackendCreateDescriptor(TENSOR, byref(p)) == 0
    return p
def asked(d):
    many = c_int64 * 3
    codes = [cudnn.cudnnBackendFinalize(d)]
    one = c_int64 * 1
    for name, kind, values in ((ALIGNMENT, INT64, one(16)), (ID, INT64, one(7)),
                               (DTYPE, DTYPE_OF, (c_int * 1)(0)),
                               (DIMENSIONS, INT64, many(2, 3, 5)),
                               (STRIDES, INT64, many(15, 5, 1))):
        codes.append(cudnn.cudnnBackendSetAttribute(d, name, kind, c_int64(len(values)), values))
    codes += [cudnn.cudnnBackendFinalize(d)]
    told, found = (c_int64 * 8)(), c_int64(-9)
    get = lambda *of: cudnn.cudnnBackendGetAttribute(d, DIMENSIONS, INT64, *of)
    codes += [get(c_int64(8), byref(found), told), found.value, *told[:3]]
    codes += [get(c_int64(0), byref(found), None), found.value, get(c_int64(8), None, told)]
    return codes + [cudnn.cudnnBackendDestroyDescriptor(d)]
answer(asked(tensor(real)), asked(tensor(cudnn)), counts.unknown_calls())
"""
    of_library, ours, unknown = under(PRELUDE + script)
    assert of_library == ours
    assert of_library[1:] == [*[0] * 6, *(0, 3, 2, 3, 5), *(0, 3, 0), 0]
    assert of_library[0] != 0
    assert unknown == {}


def test_the_weights_of_a_recurrent_network_are_one_buffer(noted):
    """Of all matrices and two biases in each layer; a forward pass finds it, and copies nothing."""
    script = """
import warnings
warnings.filterwarnings("error", message=".*contiguous chunk.*")
torch.cuda.init()
def level(kind="current"):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{kind}"]
def made(kind, **options):
    host, before = kind(5, 7, 2, **options), level()
    device = kind(5, 7, 2, **options).requires_grad_(False)
    device.load_state_dict(host.state_dict())
    device.cuda()
    weights = [*device.parameters()]
    held, x = level() - before, torch.ones(3, 2, 5)
    torch.cuda.reset_peak_memory_stats()
    before, out = level(), device(x.cuda())[0]
    taken = level("peak") - before
    with torch.autocast("cuda"):
        half = device(x.cuda())[0]
    same = all(torch.equal(a.cpu(), b) for a, b in zip(weights, host.parameters()))
    with torch.no_grad():
        wanted = host(x)[0]
    same = same and torch.allclose(out.cpu(), wanted, atol=1e-6)
    same = same and torch.allclose(half.float().cpu(), wanted, atol=1e-2)
    return held, len({w.untyped_storage().data_ptr() for w in weights}), taken < held, same
answer(made(nn.LSTM), made(nn.GRU, bias=False), made(nn.RNN, bidirectional=True),
       made(nn.LSTM, proj_size=3, bias=False))
"""
    lstm = 4 * (7 * (5 + 7) + 7 * (7 + 7) + 2 * 2 * 7)
    gru = 3 * (7 * (5 + 7) + 7 * (7 + 7) + 2 * 2 * 7)
    both = 2 * (7 * (5 + 7) + 7 * (14 + 7) + 2 * 2 * 7)
    projected = 4 * (7 * (5 + 3) + 7 * (3 + 3) + 2 * 2 * 7) + 2 * 3 * 7
    assert noted(script) == tuple(
        [4 * elements, 1, True, True] for elements in (lstm, gru, both, projected)
    )


def test_a_network_under_autocast_trains(noted):
    """PyTorch copies the weights into a buffer of half precision, and its size is known."""
    script = """
host, device = torch.nn.LSTM(8, 8), torch.nn.LSTM(8, 8)
device.load_state_dict(host.state_dict())
device.cuda()
with torch.autocast("cuda"):
    device(torch.ones(4, 2, 8, device="cuda"))[0].float().sum().backward()
host(torch.ones(4, 2, 8))[0].sum().backward()
answer([torch.allclose(a.grad.cpu(), b.grad, rtol=1e-2, atol=1e-2)
        for a, b in zip(device.parameters(), host.parameters())])
"""
    assert noted(script) == ([True] * 4,)
