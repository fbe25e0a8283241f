"""Programs that the simulation once answered wrongly, recorded in ``tests/data/cuda/<version>``.

PyTorch's database of operators found them, when its samples were called in other ways: with gaps,
in other dtypes, over lists, and with the gradients of ``opinfo_ways.py``.
"""

from functools import partial

import torch
import torch.nn.functional as F
from listed_programs import listed, made
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint


def dual(*shape):
    return forward_ad.make_dual(made(*shape), made(*shape))


def powers_of_another_type():
    """The base is cast to the type of the result before the power is taken."""
    made(3000, dtype=torch.bool).square()
    made(3000, dtype=torch.int32).pow(2.5)
    made(3000, dtype=torch.int32).pow(2)


def traces_of_integers():
    for dtype in (torch.int32, torch.int64, torch.bfloat16, torch.complex64):
        made(900, 700, dtype=dtype).trace()


def counts_of_booleans():
    made(500, 40, dtype=torch.bool).count_nonzero()
    made(500, 40, dtype=torch.complex64).count_nonzero(0)


def gammas_of_integers():
    (made(700, dtype=torch.int64) + 5).mvlgamma(3)


def embeddings_of_indices_with_gaps():
    """Indices that are one row with equal steps are not copied."""
    table, indices = made(10, 64, grad=True), made(30, 4, dtype=torch.int64)
    F.embedding(indices[:, 0], table).sum().backward()
    F.embedding(indices.T, table).sum().backward()
    F.embedding(indices[:, :2], table).sum().backward()


def pivots_with_gaps():
    for batch in ((), (1,), (3,)):
        pivots = made(*batch, 40, 2, dtype=torch.int32)[..., 0]
        torch.lu_unpack(made(*batch, 40, 40), pivots)


def solutions_and_eigenvalues_without_elements():
    torch.linalg.lu_solve(made(2, 3, 3), made(2, 3, dtype=torch.int32), made(2, 3, 0))
    torch.linalg.eigvals(made(1, 1, 0, 0))


def lists_of_another_kind():
    x = [made(300), made(0), made(70_000)]
    for order in (0, 1, 3, 0.5, float("inf")):
        torch._foreach_norm([x[0], x[2]], order)
    torch._foreach_norm([t.double()[::2] for t in x], 2)
    torch._foreach_max([x[0], x[2]])
    torch._foreach_clone(x)
    torch._foreach_abs([x[0], x[2].to(torch.complex64)])


def gradients_of_lists():
    """Their formulas work in place where those of single tensors do."""
    for function in (torch._foreach_maximum, torch._foreach_clamp_min):
        x, y = [made(25, grad=True)], [made(25, grad=True)]
        torch.autograd.backward(function(x, y), [made(25)])
    torch.autograd.backward(torch._foreach_max([made(4000, grad=True)]), [made()])


def segments_with_an_expanded_gradient():
    x = made(600, 8, grad=True)
    lengths = torch.tensor([200, 400], device="cuda")
    torch.segment_reduce(x, "sum", lengths=lengths, unsafe=True).sum().backward()


def dual_numbers_again():
    """What works in place once per level does so at each."""
    for _ in range(2):
        with forward_ad.dual_level():
            dual(20, 30).logsumexp(1)
            dual(20, 30).softmax(1)
            F.linear(dual(20, 30), dual(40, 30), dual(40))
            F.linear(dual(30), dual(40, 30))


def gradients_of_functions():
    """Autograd takes the tensors of ``torch.func`` for a subclass, and works in place on none."""
    for function in (
        lambda x: x.clamp(0, 0.5).sum(),
        lambda x: x.max(),
        lambda x: x[torch.arange(2, device="cuda")].sum(),
        lambda x: x.cummax(0).values.sum(),
    ):
        torch.func.grad(function)(made(50, 60))


def gradients_of_gradients_of_cross_entropies():
    for weights in ({}, {"pos_weight": made(60)}, {"weight": made(60)}):
        x, y = made(50, 60, grad=True), made(50, 60, grad=True)
        loss = F.binary_cross_entropy_with_logits(x, y, **weights)
        (grad, other) = torch.autograd.grad(loss, (x, y), made(grad=True), create_graph=True)
        (grad.sum() + other.sum()).backward()


def formulas_that_add_a_result():
    """An addition in a formula is no sum of gradients, which is made in place."""
    for function in (torch.special.log_ndtr, lambda x: x.atan2(x * 2), lambda x: x.mvlgamma(2)):
        x = (made(3000) * 3).requires_grad_()
        checkpoint(function, x, use_reentrant=False).backward(made(3000))


def attention_in_batches():
    """The backend is selected for one element of the batch, and its kernel runs for all."""
    for dtype in (torch.float32, torch.float16):
        for shape in ((2, 4, 8, 16), (4, 8, 16), (2, 4, 256, 64), (8, 16)):
            q, k, v = (made(3, *shape, dtype=dtype) for _ in "qkv")
            for causal in (False, True):
                attend = partial(F.scaled_dot_product_attention, is_causal=causal)
                torch.vmap(attend)(q, k, v)
                torch.vmap(attend, (0, None, None))(q, k[0], v[0])


PROGRAMS = listed(globals())
