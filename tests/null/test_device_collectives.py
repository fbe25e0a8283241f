"""``nn.DataParallel`` and what it is made of: NCCL between the devices of one process."""

HOST = """
import torch
from torch.cuda import nccl
from torch.nn.parallel import comm
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
x = torch.arange(4.0, device="cuda:0")
y = (x * 3 + 1).to("cuda:1")
def values(tree):
    return [values(one) for one in tree] if isinstance(tree, (list, tuple)) else tree.tolist()
"""


def test_what_data_parallel_is_made_of_has_true_values(under):
    script = """
out = torch.zeros(4, device="cuda:1")
answer(
    values(comm.broadcast(x, [0, 1])),
    values(comm.broadcast(x, out=[out])),
    values(comm.broadcast_coalesced([x, x + 1], [0, 1])),
    values(comm.reduce_add([x, y], 1)),
    values(comm.reduce_add_coalesced([[x, x + 1], [y, y + 1]])),
)
"""
    own, more, total = [0, 1, 2, 3], [1, 2, 3, 4], [1, 5, 9, 13]
    assert under(HOST + script, devices=2) == (
        *([own] * 2, [own], [[own, more]] * 2),
        *(total, [total, [3, 7, 11, 15]]),
    )


def test_the_gradients_of_data_parallel_are_those_of_one_device(under):
    script = """
model = torch.nn.Linear(4, 2).cuda()
inputs = torch.randn(6, 4, device="cuda")
alone = torch.autograd.grad(model(inputs).square().sum(), model.parameters())
torch.nn.DataParallel(model)(inputs).square().sum().backward()
same = [torch.allclose(one.grad, other) for one, other in zip(model.parameters(), alone)]
answer(same, torch.cuda.memory_allocated(1) > 0)
"""
    assert under(HOST + script, devices=2) == ([True, True], True)


def test_collectives_of_one_process_have_true_values(under):
    script = """
def each(*sizes): return [torch.zeros(size, device=f"cuda:{n}") for n, size in enumerate(sizes)]
def reduced(op):
    outputs = each(4, 4)
    nccl.all_reduce([x, y], outputs, op)
    return values(outputs)
gathered, scattered, (result, _), own = each(8, 8), each(2, 2), each(4, 4), [x + 0, y + 0]
nccl.all_gather([x, y], gathered)
nccl.reduce_scatter([x, y], scattered)
nccl.reduce([x, y], result, op=2)
nccl.all_reduce(own)
sent = [x + 0, y + 0]
nccl.broadcast(sent, root=1)
answer(
    [reduced(op) for op in range(5)],
    *(values(one) for one in (gathered, scattered, result, own, sent)),
)
"""
    x, y, total = [0, 1, 2, 3], [1, 4, 7, 10], [1, 5, 9, 13]
    assert under(HOST + script, devices=2) == (
        [[one, one] for one in (total, [0, 4, 14, 30], y, x, [0.5, 2.5, 4.5, 6.5])],
        *([x + y] * 2, [[1, 5], [9, 13]], y, [total] * 2, [y] * 2),
    )
