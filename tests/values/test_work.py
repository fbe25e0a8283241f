"""The arithmetic of operators against the textbook, from shapes without tensors."""

from types import SimpleNamespace

import pytest
import torch

from pytest_attnmem.errors import UnknownValue
from pytest_attnmem.values.host_operators.triton_kernels import KERNEL
from pytest_attnmem.values.work import WorkLeft, work

aten = torch.ops.aten
B, H, N, M, D, DV = 2, 3, 5, 7, 8, 4


def of(*shape):
    return SimpleNamespace(shape=torch.Size(shape))


Q, K, V, OUT = of(B, H, N, D), of(B, H, M, D), of(B, H, M, DV), of(B, H, N, DV)
CONVOLUTION = 2 * (2 * 6 * 9 * 9) * (4 * 3 * 3)
IMAGE, FILTER, RESULT = of(2, 4, 9, 9), of(6, 4, 3, 3), of(2, 6, 9, 9)
PLAIN = ([1, 1], [1, 1], [1, 1])
PRODUCTS = 2 * B * H * N * M * (D + DV)


@pytest.mark.parametrize(
    ("operator", "args", "outputs", "expected"),
    [
        (aten.mm.default, (of(3, 4), of(4, 5)), of(3, 5), 2 * 3 * 4 * 5),
        (aten.mm.dtype, (of(3, 4), of(4, 5), torch.float32), of(3, 5), 2 * 3 * 4 * 5),
        (aten.addmm.default, (of(5), of(3, 4), of(4, 5)), of(3, 5), 2 * 3 * 4 * 5),
        (aten.bmm.default, (of(2, 3, 4), of(2, 4, 5)), of(2, 3, 5), 2 * 2 * 3 * 4 * 5),
        (aten.convolution.default, (IMAGE, FILTER, None, *PLAIN, False, [0, 0], 1), RESULT,
         CONVOLUTION),
        (aten.convolution_backward.default,
         (RESULT, IMAGE, FILTER, [6], *PLAIN, False, [0, 0], 1, [True, True, False]),
         (IMAGE, FILTER, None), 2 * CONVOLUTION),
        (aten._conv_depthwise2d.default, (IMAGE, of(4, 1, 3, 3), [3, 3], None, *PLAIN), IMAGE,
         2 * (2 * 4 * 9 * 9) * (3 * 3)),
        (aten._scaled_dot_product_flash_attention.default, (Q, K, V), (OUT,), PRODUCTS),
        (aten._scaled_dot_product_flash_attention_backward.default,
         (OUT, Q, K, V, OUT, of(B, H, N)), (Q, K, V), PRODUCTS * 5 // 2),
        (aten._flash_attention_forward.default,
         (of(B * N, H, D), of(B * M, H, D), of(B * M, H, DV), of(B + 1), of(B + 1), N, M, 0.0),
         (of(B * N, H, DV),), PRODUCTS),
        (aten._efficient_attention_forward.default,
         (of(B, N, H, D), of(B, M, H, D), of(B, M, H, DV), None, None, None, None, None, 0.0, 0),
         (of(B, N, H, DV),), PRODUCTS),
        (aten._cudnn_rnn.default, (of(6, 3, 5), [of(4, 5), of(4, 4)], 2, None, of(1, 3, 4)),
         (of(6, 3, 4),), 2 * 18 * 36),
        (aten._linalg_eigh.default, (of(2, 3, 3),), (of(2, 3), of(2, 3, 3)), 20 * 2 * 2 * 3**3),
        (aten.linalg_qr.default, (of(5, 3),), (of(5, 3), of(3, 3)), 20 * 2 * 5 * 3 * 3),
        (aten.linalg_eig.out, (of(4, 4),), (), 500 * 2 * 4**3),
        (aten.add.Tensor, (of(3, 4), of(4)), of(3, 4), 12 + 4 + 12),
        (aten._foreach_add_.List, ([of(3), of(4)], [of(3), of(4)]), None, 14),
        (aten.view.default, (of(3, 4), [12]), of(12), 24),
        (KERNEL, ([of(3)], SimpleNamespace(grid=(2, 3, 4))), None, 24 * 4 * 5 * 10**6),
        (KERNEL, ([of(3)], SimpleNamespace(grid=(0,))), None, 0),
    ],
)  # fmt: skip
def test_work(operator, args, outputs, expected):
    found = work(operator, args, {}, outputs)
    assert (found, type(found)) == (expected, int)


def test_a_read_may_do_the_work_of_its_limit_and_no_more():
    left = WorkLeft()
    left.allow(10)
    left.spend(4)
    left.spend(6)
    with pytest.raises(UnknownValue) as error:
        left.spend(1)
    assert str(error.value) == (
        "it takes more floating-point operations than --attnmem-values-limit, which is 1.0e+01"
    )
    left.allow(10)
    left.spend(10)
