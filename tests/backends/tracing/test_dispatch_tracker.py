import numpy
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from pytest_attnmem.backends.cpu import Cpu
from pytest_attnmem.backends.tracing.dispatch_tracker import Tracker, TrackingMode, prime
from pytest_attnmem.measurement.protocol import Delta


def tracked(body):
    tracker = Tracker(prime())
    tracker.start()
    body()
    return tracker.stop()


def held(interval):
    return [tensor for _, tensor in interval.held]


def test_it_knows_size_shape_type_operator_and_line():
    x = torch.ones(3, 5)

    def body():
        x.softmax(-1)  # the line

    (tensor,) = held(tracked(body))
    line = body.__code__.co_firstlineno + 1
    assert (tensor.nbytes, tensor.shape, tensor.dtype) == (60, (3, 5), "float32")
    assert (tensor.op, tensor.where, tensor.function) == (
        "softmax",
        f"test_dispatch_tracker.py:{line}",
        "body",
    )


def test_views_and_in_place_operators_make_nothing():
    x = torch.ones(4, 4)
    interval = tracked(lambda: (x.t(), x.view(16), x.mul_(2), torch.add(x, 1, out=x)))
    assert (interval.requested, interval.allocations) == (Delta(0, 0), 0)


def test_tensors_alive_at_the_peak_are_held_and_freed_ones_are_not():
    def body():
        a = torch.empty(100)
        del a
        b = torch.empty(150)
        c = torch.empty(50)
        del b, c

    interval = tracked(body)
    assert interval.requested == Delta(800, 0)
    assert [tensor.shape for tensor in held(interval)] == [(150,), (50,)]


def test_the_gradient_of_an_index_is_put_into_zeros_in_place():
    """As without a dispatch mode, under which autograd would put it into a copy."""
    x, rows = torch.ones(50, 8, requires_grad=True), torch.arange(40)

    def body():
        return x[rows].mul(2).sum().backward()

    tensors = held(tracked(body))
    x.grad = None
    assert sum(tensor.nbytes for tensor in tensors if tensor.shape == (50, 8)) == 50 * 8 * 4


def test_a_second_interval_remembers_what_the_first_made():
    tracker = Tracker()
    tracker.start()
    a = torch.empty(10)
    tracker.stop()
    tracker.start()
    b = torch.empty(20)
    interval = tracker.stop()
    assert interval.requested == Delta(80, 80)
    assert interval.first_allocation == 1
    assert [number for number, _ in interval.held] == [0, 1]
    del a, b


def naive(q, k, v):
    return (q @ k.mT).softmax(-1) @ v


@pytest.mark.parametrize(
    "attention",
    [
        naive,
        lambda q, k, v: checkpoint(naive, q, k, v, use_reentrant=False, preserve_rng_state=False),
    ],
    ids=["naive", "checkpointed"],
)
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_it_agrees_with_the_allocator_where_kernels_have_no_scratch(attention, backward):
    q, k, v = (torch.randn(2, 3, 40, 8, requires_grad=backward) for _ in range(3))
    grad = torch.ones(2, 3, 40, 8)

    def body():
        out = attention(q, k, v)
        if backward:
            torch.autograd.grad(out, (q, k, v), grad)

    body()
    recorder = Cpu().gauge()
    recorder.start()
    body()
    assert tracked(body).requested == recorder.stop().requested


FOREIGN = torch.ones(61)  # 244 bytes
ARRAY = numpy.ones(1000, "f")


def out_of_nothing(out):
    torch.mm(torch.ones(30, 40), torch.ones(40, 50), out=out)
    return out


def shrink(x):
    torch.ops.inductor.resize_storage_bytes_(x, 12)
    return x


#: What makes a tensor, the shapes that are allocated, and the bytes at the peak and at the end.
MADE = {
    "tensor of a list": (lambda: torch.tensor([0.0] * 2**20), [(2**20,)], 2**22, 2**22),
    "tensor of an array": (lambda: torch.tensor(ARRAY), [(1000,)], 4000, 4000),
    "indexed by a list": (
        *(lambda: torch.ones(50, 50)[[0, 1]], [(50, 50), (2,), (2, 50)]),
        *(10416, 400),
    ),
    "array shared": (lambda: torch.from_numpy(ARRAY), [], 0, 0),
    "array as a tensor": (lambda: torch.as_tensor(ARRAY), [], 0, 0),
    "out": (
        *(lambda: out_of_nothing(torch.empty(0)), [(30, 40), (40, 50), (30, 50)]),
        *((1200 + 2000 + 1500) * 4, 6000),
    ),
    "from nothing": (lambda: torch.empty(0).resize_(203), [(203,)], 812, 812),
    "grown": (lambda: torch.zeros(103).resize_(223), [(103,), (223,)], 412 + 892, 892),
    "made smaller in place": (lambda: torch.zeros(213).resize_(101), [(213,)], 852, 852),
    "storage shrunk": (lambda: shrink(torch.zeros(307)), [(307,), (307,)], 1228 + 12, 12),
    "view": (
        *(lambda: FOREIGN.clone().detach().resize_(7, 20), [(61,), (7, 20)]),
        *(244 + 560, 560),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_tensors_made_or_resized_without_the_dispatcher_are_known_to_the_byte(name):
    make, shapes, peak, net = MADE[name]
    made = []
    make()
    recorder = Cpu().gauge()
    recorder.start()
    made.append(make())
    seen = recorder.stop()
    made.clear()
    interval = tracked(lambda: made.append(make()))
    assert seen.requested == interval.requested == Delta(peak, net)
    assert [tensor.shape for tensor in held(interval)] == shapes


@pytest.mark.parametrize("size", [0, 37])
def test_an_earlier_tensor_that_grew_is_allocated_at_its_new_size(size):
    def grown(seen_by):
        x = torch.empty(size)
        seen_by.start()
        x.resize_(211)
        interval = seen_by.stop()
        return interval, x

    (seen, _), (interval, _) = grown(Cpu().gauge()), grown(Tracker())
    assert seen.requested == interval.requested == Delta(844, 844 - 4 * size)
    assert [(tensor.shape, tensor.op) for tensor in held(interval)] == [((211,), "resize")]


def test_a_resized_tensor_is_freed_once():
    def body():
        x = torch.empty(10)
        x.resize_(20)
        shrink(x)
        torch.ops.inductor.resize_storage_bytes_(x, 0)
        torch.ops.inductor.resize_storage_bytes_(x, 60)

    interval = tracked(body)
    assert (interval.requested, interval.left) == (Delta(120, 0), ())
    assert interval.allocations == 4


def test_tensors_of_other_layouts_are_passed_over():
    assert tracked(lambda: torch.eye(3).to_sparse()).problem is None


def test_kernels_of_this_package_are_the_program_and_named():
    from pytest_attnmem.kernels import standard

    q = torch.ones(1, 1, 4, 4)
    tensors = held(tracked(lambda: standard.attention(q, q, q)))
    assert {tensor.where.partition(":")[0] for tensor in tensors} == {"standard.py"}


def test_it_knows_the_tensors_alive_at_the_end():
    kept = []

    def body():
        torch.empty(1000)
        kept.append(torch.empty(50))

    interval = tracked(body)
    assert [tensor.shape for _, tensor in interval.left] == [(50,)]
    assert [tensor.shape for tensor in held(interval)] == [(1000,)]


def test_a_mode_that_misses_operators_or_frees_is_a_problem(monkeypatch):
    shows = f"the dispatcher of torch {torch.__version__} shows"
    with monkeypatch.context() as blind:
        blind.setattr(TrackingMode, "_follow", lambda *_: None)
        interval = tracked(lambda: torch.ones(4))
        assert interval.problem == f"{shows} 0 B of a program of 8 B, and 0 B at its end"
    with monkeypatch.context() as endless:
        endless.setattr(TrackingMode, "_free", lambda self, key: None)
        assert tracked(lambda: None).problem.startswith(f"{shows} 16 B of a program of 8 B, and 16")
    assert tracked(lambda: torch.ones(4)).problem is None


def test_the_known_program_depends_on_no_state_of_the_program():
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.inference_mode():
            assert prime() == ""
        with FakeTensorMode():
            assert prime() == ""
        with torch.no_grad():
            assert prime() == ""
    finally:
        torch.set_default_dtype(default)


def test_a_tensor_that_holds_others_is_what_it_holds():
    pair, made = TwoTensor(torch.ones(3), torch.ones(3)), []
    tensors = held(tracked(lambda: made.append(pair + 1)))
    assert [(one.shape, one.op) for one in tensors] == [((3,), "add")] * 2
    assert made[0].a.tolist() == [2, 2, 2]


def test_an_operator_may_return_a_tensor_that_holds_others():
    """As a collective of ``DTensor`` does, whose result waits for its values."""
    library = torch.library.Library("_attnmem_tracked", "FRAGMENT")
    library.define("wrapped(Tensor x) -> Tensor")
    library.impl("wrapped", lambda x: TwoTensor(x, x), "CPU")
    x = torch.ones(3)
    tensors = held(tracked(lambda: torch.ops._attnmem_tracked.wrapped(x + 1)))
    assert [(one.shape, one.op) for one in tensors] == [((3,), "add")]
