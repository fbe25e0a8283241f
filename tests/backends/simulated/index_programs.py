"""Programs that read and set elements by indices, recorded in ``tests/data/cuda/<version>``.

From 2.15 on, PyTorch fills elements with a number, and leaves an index of one place on the device.
"""

import torch
from listed_programs import listed, made

NUMBERS = (0.0, 3, True, float("-inf"))


def _places():
    """Returns what selects places of a tensor [4, 5, 100] on the device."""
    two = torch.tensor([1, 2], device="cuda")
    return (
        *(two, [1, 2], (two, two), (..., two), (slice(1, 3), two), (slice(None), two), (1, two)),
        *((slice(0, 100), two), (None, two), (two, slice(None), slice(0, 50)), two.reshape(2, 1)),
        *((slice(None), [3, 4]), (True, two), (two[0], two), two[0], (None, two[0]), (..., two[0])),
        *(two[:0], (two[0], slice(1, 3)), two.to(torch.int32)[0], (torch.tensor(1), two)),
        (slice(torch.tensor(0), None), two),
    )


def _targets():
    """Returns these and masks, by which a number is written, and indices that are copied."""
    rows = torch.tensor([True, False, True, False], device="cuda")
    masks = (rows, [True, False, True, False], rows[:, None].expand(4, 5), (rows, 2))
    return (*_places(), *masks, torch.tensor([[1, 2, 3], [0, 2, 3]], device="cuda").T)


def changed(x, index, value):
    x = x.clone()
    x[index] = value
    return x.sum()


def numbers_by_index_with_gradients():
    for dtype in (torch.float32, torch.float16):
        for index in _targets():
            x = made(4, 5, 100, dtype=dtype, grad=True)
            changed(x, index, 0.0).backward()


def tensors_of_one_number_by_index_with_gradients():
    for index in _places():
        x = made(4, 5, 100, grad=True)
        changed(x, index, made()).backward()
        changed(x, index, torch.tensor(2.0)).backward()


def numbers_of_all_kinds_by_index():
    for index in _targets():
        for number in NUMBERS:
            made(4, 5, 100)[index] = number


def numbers_in_gradients_of_functions():
    for index in _targets():
        torch.func.grad(lambda x, at=index: changed(x, at, 1.0))(made(4, 5, 100))


def numbers_in_batches():
    for index in _places():
        torch.vmap(lambda x, at=index: changed(x, at, 1.0))(made(3, 4, 5, 100))
    rows = torch.ones(3, dtype=torch.int64, device="cuda")
    torch.vmap(lambda x, at: changed(x, at, 1.0))(made(3, 4, 5, 100), rows)


def reads_in_transforms():
    """A list is a tensor of the device there too, and a tensor of the host is copied."""
    for index in (*_places(), torch.tensor([1, 2]), (torch.tensor([1, 2]), [0, 1])):
        torch.func.grad(lambda x, at=index: x[at].sum())(made(4, 5, 100))
    torch.func.jacrev(torch.func.grad(lambda x: (x[[1, 2]] * x[0, 0]).sum()))(made(4, 5))
    torch.func.jvp(lambda x: x[[1, 2]], (made(4, 5),), (made(4, 5),))
    torch.vmap(lambda x: x[[1, 2]])(made(3, 4, 5))


def numbers_in_transforms():
    """Tensors of numbers, and one of the program that requires a gradient outside."""
    outside = torch.ones(500, requires_grad=True)
    for function in (
        lambda x: x * x.new([1.0, 2.0, 3.0, 4.0, 5.0]),
        lambda x: x * x.new_tensor([1.0, 2.0, 3.0, 4.0, 5.0]),
        lambda x: x[torch.LongTensor([1, 2])],
        lambda x: x * outside.cuda()[:5],
    ):
        torch.func.grad(lambda x, f=function: f(x).sum())(made(4, 5))
        torch.vmap(function)(made(3, 4, 5))


PROGRAMS = listed(globals())
