import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pytest_attnmem.backends import Rise
from pytest_attnmem.backends.cpu import Cpu
from pytest_attnmem.backends.tracker import Tracker


def tracked(body):
    tracker = Tracker()
    tracker.start()
    body()
    return tracker.stop()


def held(stretch):
    return [tensor for _, tensor in stretch.held]


def test_it_knows_size_shape_type_operator_and_line():
    x = torch.ones(3, 5)

    def body():
        x.softmax(-1)  # the line

    (tensor,) = held(tracked(body))
    line = body.__code__.co_firstlineno + 1
    assert (tensor.nbytes, tensor.shape, tensor.dtype) == (60, (3, 5), "float32")
    assert (tensor.op, tensor.where, tensor.function) == (
        "softmax",
        f"test_tracker.py:{line}",
        "body",
    )


def test_views_and_in_place_operators_make_nothing():
    x = torch.ones(4, 4)
    stretch = tracked(lambda: (x.t(), x.view(16), x.mul_(2), torch.add(x, 1, out=x)))
    assert (stretch.requested, stretch.allocations) == (Rise(0, 0), 0)


def test_what_was_alive_at_the_peak_is_held_and_what_died_before_is_not():
    def body():
        a = torch.empty(100)
        del a
        b = torch.empty(150)
        c = torch.empty(50)
        del b, c

    stretch = tracked(body)
    assert stretch.requested == Rise(800, 0)
    assert [tensor.shape for tensor in held(stretch)] == [(150,), (50,)]


def test_a_second_stretch_remembers_what_the_first_made():
    tracker = Tracker()
    tracker.start()
    a = torch.empty(10)
    tracker.stop()
    tracker.start()
    b = torch.empty(20)
    stretch = tracker.stop()
    assert stretch.requested == Rise(80, 80)
    assert stretch.births == 1
    assert [number for number, _ in stretch.held] == [0, 1]
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
def test_it_agrees_with_the_allocator_where_kernels_keep_nothing_to_themselves(attention, backward):
    q, k, v = (torch.randn(2, 3, 40, 8, requires_grad=backward) for _ in range(3))
    grad = torch.ones(2, 3, 40, 8)

    def body():
        out = attention(q, k, v)
        if backward:
            torch.autograd.grad(out, (q, k, v), grad)

    body()
    gauge = Cpu().gauge("peak")
    gauge.start()
    body()
    assert tracked(body).requested == gauge.stop().requested


def test_tensors_of_other_layouts_are_passed_over():
    stretch = tracked(lambda: torch.eye(3).to_sparse())
    assert stretch.problem is None


def test_kernels_of_this_package_are_the_program_and_named():
    from pytest_attnmem.kernels import standard

    q = torch.ones(1, 1, 4, 4)
    names = {
        tensor.where.partition(":")[0]
        for tensor in held(tracked(lambda: standard.attention(q, q, q)))
    }
    assert names == {"standard.py"}


def test_it_knows_what_is_left_at_the_end():
    kept = []

    def body():
        torch.empty(1000)
        kept.append(torch.empty(50))

    stretch = tracked(body)
    assert [tensor.shape for _, tensor in stretch.left] == [(50,)]
    assert [tensor.shape for tensor in held(stretch)] == [(1000,)]
