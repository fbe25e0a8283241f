"""Arithmetic of narrow floats, against PyTorch's."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

from pytest_attnmem.values.narrow_floats import NARROW, NarrowFloats


class Dtype:
    """A dtype of Triton's language."""

    def __init__(self, name):
        self.name = name
        self.scalar = self


@dataclass
class Handle:
    """A value of Triton's interpreter."""

    data: Any
    dtype: Dtype


class Pointer(Dtype):
    """A pointer to a dtype."""


FLOAT32 = Dtype("fp32")
FLOATS = NarrowFloats(
    SimpleNamespace(
        TensorHandle=Handle, np=numpy, tl=SimpleNamespace(float32=FLOAT32, pointer_type=Pointer)
    )
)
VALUES = torch.tensor([0.0, -0.0, 1.0, 1.00390625, 1.01171875, -3.3e-3, 1.9921875, 5e-41, 448.0])


def handle(values, name):
    """Returns what the interpreter has for the values: their bits."""
    bits = values.to(NARROW[name]).view(torch.int16 if name == "bf16" else torch.int8).numpy()
    return Handle(bits.view(f"uint{8 * bits.itemsize}"), Dtype(name))


@pytest.mark.parametrize("name", ["bf16", "fp8e5", "fp8e4nv"])
def test_a_sum_is_rounded_to_the_nearest(name):
    given = handle(VALUES, name)
    exact = VALUES.to(NARROW[name]).float()
    assert torch.equal(torch.from_numpy(FLOATS.wide(given).data), exact)
    add = FLOATS.computed(lambda a, b: Handle(a.data + b.data, a.dtype), 0)
    found = add(given, Handle(numpy.float32(0.3), FLOAT32))
    wanted = exact + numpy.float32(0.3)
    assert found.dtype.name == name
    assert found.data.dtype == given.data.dtype
    assert (found.data == handle(wanted, name).data).all()


def test_what_is_too_large_for_float8_is_the_largest():
    wide = Handle(numpy.array([1e6, -1e6, numpy.nan], numpy.float32), FLOAT32)
    found = FLOATS.wide(FLOATS.narrowed(wide, Dtype("fp8e4nv"))).data
    assert found[:2].tolist() == [448.0, -448.0]
    assert numpy.isnan(found[2])


def test_other_values_and_comparisons_stay_as_they_are():
    same = FLOATS.computed(lambda a, b: Handle(a.data < b.data, a.dtype), 0)
    found = same(handle(VALUES, "bf16"), handle(VALUES + 1, "bf16"))
    assert (found.data.dtype, found.dtype.name) == (bool, "bf16")
    pointer = Handle(numpy.zeros(2, numpy.uint64), Pointer("bf16"))
    assert FLOATS.wide(pointer) is pointer
    plain = Handle(numpy.zeros(2, numpy.float16), Dtype("fp16"))
    assert FLOATS.computed(lambda a: a, 0)(plain) is plain


def test_a_cast_is_rounded_to_the_nearest():
    def astype(value, dtype):
        return Handle(
            value.data.astype({"fp32": "f4", "fp16": "f2", "i32": "i4"}[dtype.name]), dtype
        )

    cast = FLOATS.cast(astype)
    whole = Handle(numpy.array([1, 257, 258, 259]), Dtype("i32"))
    narrow = cast(whole, Dtype("bf16"))
    assert FLOATS.wide(narrow).data.tolist() == [1.0, 256.0, 258.0, 260.0]
    assert cast(narrow, Dtype("i32")).data.tolist() == [1, 256, 258, 260]
    assert cast(narrow, Dtype("fp16")).data.dtype == numpy.float16


def test_atomic_sums_are_added_one_after_the_other():
    bits = handle(torch.tensor([1.0, 2.0, 3.0]), "bf16")
    held = handle(torch.tensor([256.0, 8.0]), "bf16").data

    class Memory:
        def load(self, at, mask, other, dtype):
            return held[at.astype(int)]

        def store(self, at, values, mask):
            held[at.astype(int)] = values

    atomic = FLOATS.atomic(lambda *args: args, "add", Memory())
    pointers = Handle(numpy.array([0, 0, 1], numpy.uint64), Pointer("bf16"))
    mask = Handle(numpy.array([True, True, False]), Dtype("int1"))
    found = atomic("add", pointers, bits, mask, None, None)
    # 256 + 1 has no bfloat16, and the even neighbour is 256
    assert FLOATS.wide(found).data[:2].tolist() == [256.0, 256.0]
    assert FLOATS.wide(Handle(held, Dtype("bf16"))).data.tolist() == [258.0, 8.0]
    assert atomic("other", 7) == ("other", 7)
    with pytest.raises(NotImplementedError) as error:
        atomic("max", pointers, bits, mask, None, None)
    assert str(error.value) == "an atomic operation of narrow floats has no equivalent"
