"""Operands of other dtypes than CUDA's operators take, with the texts of the null device."""

import pytest
import torch
from torch.nn import functional as F

HALF, FLOAT, DOUBLE, INT, LONG = (
    getattr(torch, n) for n in ("half", "float", "double", "int", "long")
)


def ones(dtype, *shape):
    return torch.ones(shape, dtype=dtype, device="cuda")


def host(dtype):
    return torch.zeros((), dtype=dtype)


def rows(dtype):
    return torch.zeros(2, dtype=dtype, device="cuda")


def sampled(image, grid):
    return F.grid_sample(image, grid, align_corners=False)


MUST = "must have the same dtype, but got"
CALLS = {
    "mm": (
        lambda: ones(HALF, 2, 3) @ ones(FLOAT, 3, 2),
        "expected mat1 and mat2 to have the same dtype, but got: c10::Half != float",
    ),
    "mm of integers": (
        lambda: ones(FLOAT, 2, 3) @ ones(LONG, 3, 2),
        "expected mat1 and mat2 to have the same dtype, but got: float != long int",
    ),
    "linear": (
        lambda: torch.nn.Linear(3, 2, device="cuda")(ones(DOUBLE, 2, 3)),
        f"mat1 and mat2 {MUST} Double and Float",
    ),
    "bias": (
        lambda: F.linear(ones(HALF, 2, 3), ones(HALF, 4, 3), ones(FLOAT, 4)),
        f"self and mat2 {MUST} Float and Half",
    ),
    "mv": (
        lambda: ones(HALF, 2, 3) @ ones(FLOAT, 3),
        f"addmv input tensors {MUST} Float, Half, and Float",
    ),
    "dot": (
        lambda: ones(HALF, 3) @ ones(FLOAT, 3),
        "dot : expected both vectors to have same dtype, but found Half and Float",
    ),
    "bmm": (
        lambda: ones(FLOAT, 2, 2, 3) @ ones(DOUBLE, 2, 3, 2),
        "expected scalar type Float but found Double",
    ),
    "layer_norm": (
        lambda: F.layer_norm(ones(DOUBLE, 2, 4), (4,), ones(FLOAT, 4)),
        "expected scalar type Double but found Float",
    ),
    "group_norm": (
        lambda: F.group_norm(ones(FLOAT, 2, 4, 3), 2, ones(HALF, 4), ones(HALF, 4)),
        "mixed dtype (CPU): expect parameter to have scalar type of Float",
    ),
    "cross_entropy": (
        lambda: F.cross_entropy(ones(FLOAT, 2, 3), rows(INT)),
        "expected target dtype to be Long or Byte, but got Int",
    ),
    "binary_cross_entropy": (
        lambda: F.binary_cross_entropy(ones(FLOAT, 2) * 0.5, ones(DOUBLE, 2)),
        "Found dtype Double but expected Float",
    ),
    "lerp": (
        lambda: torch.lerp(ones(HALF, 2), ones(FLOAT, 2), 0.5),
        "expected dtype c10::Half for `end` but got dtype float",
    ),
    "index_put": (
        lambda: ones(FLOAT, 4).index_put_((rows(LONG),), ones(DOUBLE, 2)),
        "Index put requires the source and destination dtypes match, got Float for the destination"
        " and Double for the source.",
    ),
    "index_put by a mask of bytes": (
        lambda: ones(FLOAT, 2).index_put_((rows(torch.uint8),), torch.tensor(0.0)),
        "masked_fill only supports boolean masks, but got dtype Byte",
    ),
    "index_put of float8": (
        lambda: rows(torch.float8_e5m2).index_put((rows(torch.bool),), host(torch.float8_e5m2)),
        "\"masked_fill_\" not implemented for 'Float8_e5m2'",
    ),
    "index_put of uint16": (
        lambda: ones(torch.uint16, 2).index_put_((rows(LONG),), ones(torch.uint16, 2)),
        "\"index_put\" not implemented for 'UInt16'",
    ),
    "masked_fill": (
        lambda: ones(FLOAT, 2).masked_fill_(rows(torch.uint8), 0.0),
        "masked_fill only supports boolean masks, but got dtype Byte",
    ),
    "embedding": (
        lambda: F.embedding(rows(FLOAT), ones(FLOAT, 4, 3)),
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long,"
        " Int; but got torch.cuda.FloatTensor instead (while checking arguments for embedding)",
    ),
    "embedding_bag": (
        lambda: F.embedding_bag(
            torch.zeros(2, 2, dtype=LONG, device="cuda"), ones(HALF, 4, 3),
            per_sample_weights=ones(FLOAT, 2, 2), mode="sum",
        ),
        "expected scalar type Half but found Float",
    ),
    "grid_sample": (
        lambda: sampled(ones(FLOAT, 1, 1, 4, 4), ones(DOUBLE, 1, 2, 2, 2)),
        "expected scalar type Float but found Double",
    ),
    "add_": (
        lambda: ones(INT, 2).add_(1.5),
        "result type Float can't be cast to the desired output type Int",
    ),
    "div_": (
        lambda: ones(INT, 2).div_(2),
        "result type Float can't be cast to the desired output type Int",
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_other_dtypes_raise_the_error_of_the_device(run, call):
    function, text = CALLS[call]

    def program():
        with pytest.raises(RuntimeError) as caught:
            function()
        assert str(caught.value).splitlines()[0] == text

    assert run(program).unmeasured.endswith(text)


def test_the_same_dtypes_run(run):
    def program():
        ones(HALF, 2, 3) @ ones(HALF, 3, 2)
        ones(INT, 2).add_(1).mul_(2).div_(2, rounding_mode="floor")
        ones(FLOAT, 2).add_(ones(INT, 2)).mul_(1.5)
        F.group_norm(ones(FLOAT, 2, 4, 3), 2, ones(FLOAT, 4), ones(FLOAT, 4))
        F.embedding(rows(INT), ones(FLOAT, 4, 3))

    assert run(program).unmeasured is None
