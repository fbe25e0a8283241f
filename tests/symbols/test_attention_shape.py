"""Symbols: their sources, their names, and the sizes of tensors."""

import copy
import pickle

import numpy as np
import pytest
import torch

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather
from pytest_attnmem.symbols.names import ALIASES, DEFAULTS, SYMBOLS
from pytest_attnmem.symbols.sizes import ITEMSIZES, itemsize_of

SHAPE = AttentionShape({"B": 2, "H": 6, "Hkv": 3, "N": 5, "M": 7, "d": 11, "dv": 13, "itemsize": 2})


def from_arguments(**values: object) -> AttentionShape:
    return gather([Source("the test's arguments", values)])


def test_size_of_each_tensor() -> None:
    assert SHAPE["N"] == SHAPE.N == 5
    sizes = {
        "q_bytes": 2 * 6 * 5 * 11 * 2,
        "k_bytes": 2 * 3 * 7 * 11 * 2,
        "v_bytes": 2 * 3 * 7 * 13 * 2,
        "out_bytes": 2 * 6 * 5 * 13 * 2,
        "scores_bytes": 2 * 6 * 5 * 7 * 2,
        "lse_bytes": 2 * 6 * 5 * 4,
    }
    assert {name: getattr(SHAPE, name) for name in sizes} == sizes
    with pytest.raises(BudgetError, match=r"^symbol 'd' has no value"):
        _ = AttentionShape({"B": 1, "H": 1, "N": 1}).q_bytes


@pytest.mark.parametrize(
    ("symbols", "name", "known", "hint"),
    [
        ({"B": 1, "N": 64}, "d", "B=1, N=64", ""),
        ({}, "d", "none", ""),
        ({}, "MiB", "none", "; a formula is in bytes, and 1 MiB is 1048576 of them"),
    ],
)
def test_a_symbol_without_a_value_is_named_with_those_known(
    symbols: dict[str, int], name: str, known: str, hint: str
) -> None:
    with pytest.raises(BudgetError) as error:
        _ = AttentionShape(symbols)[name]
    assert str(error.value) == (
        f"symbol '{name}' has no value (known: {known}); pass {name}=… with the limit, name a test"
        f" argument so, or make the inputs with the fixture qkv{hint}"
    )


def test_a_shape_can_be_copied_and_pickled() -> None:
    assert copy.deepcopy(SHAPE) == SHAPE
    assert pickle.loads(pickle.dumps(SHAPE)) == SHAPE


@pytest.mark.parametrize(("name", "symbol"), ALIASES.items())
def test_an_argument_by_the_fields_name_is_the_symbol(name: str, symbol: str) -> None:
    assert from_arguments(**{name: 3})[symbol] == 3


def test_every_alias_and_default_is_of_a_symbol() -> None:
    assert {*ALIASES.values(), *DEFAULTS, *DEFAULTS.values()} <= set(SYMBOLS)


def test_symbols_default_to_those_of_the_queries_and_give_way_to_a_value() -> None:
    shape = from_arguments(B=1, H=8, N=64, d=16)
    assert (shape.Hkv, shape.M, shape.dv) == (8, 64, 16)
    shape = from_arguments(H=8, num_kv_heads=2, N=64, kv_len=3, d=16, dv=5)
    assert (shape.Hkv, shape.M, shape.dv) == (2, 3, 5)
    assert from_arguments(B=1).symbols == {"B": 1}
    # A disagreement does not spread to a symbol with a value of its own.
    shape = gather([Source("the marker", {"N": 8, "M": 2}), Source("qkv", {"N": 16})])
    assert shape.M == 2
    shape = gather([Source("the marker", {"N": 8}), Source("qkv", {"N": 8, "seq_len": 8})])
    assert shape.N == 8


def test_symbols_come_in_their_usual_order_and_others_after_them() -> None:
    shape = from_arguments(window=3, dtype="float32", d=4, N=2, blocks=5, B=1)
    assert list(shape.symbols) == ["B", "N", "M", "d", "dv", "itemsize", "blocks", "window"]


@pytest.mark.parametrize(
    ("values", "symbols"),
    [
        *(
            ({"H": value, "N": 4}, {"N": 4, "M": 4})
            for value in (0.125, "8", None, [8], torch.ones(()), object())
        ),
        ({"causal": True, "mask": False}, {"causal": 1, "mask": 0}),
        (
            {"N": np.int64(5), "B": np.uint8(2), "scale": np.float32(1)},
            {"B": 2, "N": 5, "M": 5},
        ),
        # A size is not nearly as large.
        ({"N": 10**5000, "M": -(2**512), "d": 2**512 - 1}, {"d": 2**512 - 1, "dv": 2**512 - 1}),
        ({"dtype": "float33"}, {}),
    ],
    ids=["float", "text", "None", "list", "tensor", "object", "flags", "numpy", "huge", "dtype"],
)
def test_what_is_a_whole_number_is_a_symbol(
    values: dict[str, object], symbols: dict[str, int]
) -> None:
    assert from_arguments(**values).symbols == symbols


@pytest.mark.parametrize(
    ("first", "second", "symbol", "of", "values"),
    [
        ({"N": 8}, {"N": 16}, "N", "N", ("N=8", "N=16")),
        ({"seq_len": 8}, {"N": 16}, "N", "N", ("N=8 (seq_len=8)", "N=16")),
        (
            *({"dtype": torch.float16}, {"dtype": "float32"}, "itemsize", "itemsize"),
            ("itemsize=2 (dtype=torch.float16)", "itemsize=4 (dtype=float32)"),
        ),
        ({"H": 8}, {"H": 4}, "Hkv", "H", ("H=8", "H=4")),
    ],
    ids=["symbol", "alias", "dtype", "default"],
)
def test_sources_that_disagree_are_named_where_the_symbol_is_read(
    first: dict[str, object],
    second: dict[str, object],
    symbol: str,
    of: str,
    values: tuple[str, str],
) -> None:
    shape = gather([Source("the marker", first), Source("qkv", second), Source("x", {"d": 3})])
    assert shape.d == 3
    with pytest.raises(BudgetError) as error:
        _ = shape[symbol]
    assert str(error.value) == (
        f"symbol '{of}' has two values: {values[0]} from the marker, {values[1]} from qkv"
    )


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float32, 4),
        (torch.bfloat16, 2),
        (torch.complex128, 16),
        (np.dtype("float64"), 8),
        ("float16", 2),
        ("torch.float16", 2),
        ("bf16", 2),
        ("fp8", 1),
    ],
    ids=str,
)
def test_itemsize(dtype: object, size: int) -> None:
    assert itemsize_of(dtype) == size


@pytest.mark.parametrize("name", [name for name in ITEMSIZES if hasattr(torch, name)])
def test_itemsize_of_a_name_is_torchs(name: str) -> None:
    assert ITEMSIZES[name] == getattr(torch, name).itemsize


def test_an_unknown_dtype_is_named_with_those_known() -> None:
    with pytest.raises(BudgetError) as error:
        itemsize_of("float33")
    assert str(error.value) == (
        "unknown dtype 'float33'; expected a torch dtype or one of float64, double, fp64,"
        " complex64, int64, float32, float, fp32, int32, float16, half, fp16, bfloat16, bf16,"
        " int16, float8_e4m3fn, float8_e5m2, fp8, int8, uint8, bool, complex128"
    )


def test_a_dtype_that_cannot_be_printed_is_refused_in_one_line() -> None:
    with pytest.raises(BudgetError, match=r"^unknown dtype '<int of 16610 bits>'; expected"):
        itemsize_of(10**5000)
