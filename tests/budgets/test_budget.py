"""Budgets: the arguments of a marker, their bytes, and the errors for bad input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_attnmem.budgets.budget import Budget, BudgetSpec, resolve
from pytest_attnmem.budgets.limit import Limit
from pytest_attnmem.budgets.memory_model import KernelModel, MemoryModel, Phase
from pytest_attnmem.budgets.parsing import memory_budget, parse
from pytest_attnmem.budgets.tolerance import Tolerance
from pytest_attnmem.errors import AttnMemError, BudgetError, FormulaError, SizeError
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.symbols.attention_shape import AttentionShape, Source, gather

MIB = 1024**2
SHAPE = gather([Source("test", {"B": 2, "H": 3, "N": 5, "d": 7, "itemsize": 4})])
MODEL = MemoryModel("twice", (Phase("all", {"x": "2*N"}, {"cuda": {"scratch": "N"}}),))
HUGE = 10**5000  # more digits than Python converts to text
WHOLE = "expected whole bytes, an int >= 0 and < 2**512"
SIZES = "write a number and one of B, KiB, MiB, GiB, TiB, as in '64 MiB'"
GRAMMAR = (
    "a formula is arithmetic over symbols: + - * / // ** ^ ( ) min max ceil log2, numbers and sizes"
    " like 64 MiB"
)
KINDS = (
    "in the budget; expected cuda, sm90 (a compute capability), cpu, another device type or default"
)
FORMS = (
    "expected a size ('64 MiB'), whole bytes, a formula, a growth contract, a MemoryModel, a"
    " callable or a dict by device"
)
OPTIONS = "limit, metric, tolerance, exact, backend, device, warmup, ranks, compiled, fixed"


def budget(limit: object, *kinds: str, **keywords: Any) -> Budget:
    return resolve(parse((limit,), keywords), SHAPE, kinds or ("cpu",))


def refusal(*arguments: Any, **keywords: Any) -> str:
    """The message that refuses a marker, one line long."""
    with pytest.raises(AttnMemError) as error:
        parse(arguments, keywords)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def scores(shape: AttentionShape) -> int:
    return shape.scores_bytes


def nothing(shape: AttentionShape) -> int:
    return 0


class Doubled:
    def __call__(self, shape: AttentionShape) -> int:
        return 2 * shape.N


@pytest.mark.parametrize(
    ("limit", "nbytes", "text"),
    [
        ("64 MiB", 64 * MIB, "64 MiB"),
        ("1_024 b", 1024, "1_024 b"),
        (1536, 1536, "1536 B"),
        (0, 0, "0 B"),
        ("2*B*H*N*M*itemsize", 2 * 2 * 3 * 5 * 5 * 4, "2*B*H*N*M*itemsize"),
        ("1 KiB\n  + N", 1029, "1 KiB + N"),
        ("2 * 3", 6, "2 * 3"),
        (parse_formula("N^2"), 25, "N^2"),
        (parse_formula("N +\n1"), 6, "N + 1"),
        (MODEL, 10, "twice"),
        (scores, 600, "scores"),
        (Doubled(), 10, "Doubled"),
        (nothing, 0, "nothing"),
    ],
    ids=lambda value: repr(value) if isinstance(value, str | int) else "",
)
def test_limit(limit: object, nbytes: int, text: str) -> None:
    resolved = budget(limit)
    assert (resolved.limit_bytes, resolved.text) == (nbytes, text)


@pytest.mark.parametrize(
    ("limit", "values"),
    [
        ("64 MiB", {}),
        ("B*M", {"B": 2, "M": 5}),
        (MODEL, {"N": 5}),
        (lambda shape: shape.N, dict(SHAPE.symbols)),
    ],
    ids=["size", "formula", "model", "callable"],
)
def test_a_budget_tells_the_symbols_it_read(limit: object, values: dict[str, int]) -> None:
    assert budget(limit).values == values


@pytest.mark.parametrize(
    ("kinds", "nbytes", "text"),
    [
        (("sm90", "cuda"), 90, "sm90: 90 B"),
        (("sm80", "cuda"), 50, "cuda: 10*N"),
        (("cpu",), 5, "default: N + 0"),
        (("mps", "accelerator"), 7, "mps: 7 B"),
    ],
    ids=["closest", "kind", "default", "another"],
)
def test_the_limit_of_the_closest_kind_holds(
    kinds: tuple[str, ...], nbytes: int, text: str
) -> None:
    limits = {"default": "N + 0", "cuda": "10*N", "sm90": 90, "mps": 7}
    resolved = budget(limits, *kinds)
    assert (resolved.limit_bytes, resolved.text) == (nbytes, text)


def test_the_text_of_several_limits_is_one_line() -> None:
    spec = parse(({"cuda": parse_formula("N +\n1"), "cpu": "8\n* N"},), {})
    assert spec.text == "cuda: N + 1, cpu: 8 * N"


@pytest.mark.parametrize(
    ("limit", "absent"),
    [
        ({"cuda": 1, "sm90": 2}, "no limit for cpu, only for cuda, sm90"),
        (None, "no limit was given"),
    ],
    ids=["other devices", "nothing"],
)
def test_a_budget_without_a_limit_says_why(limit: object, absent: str) -> None:
    resolved = budget(limit)
    assert (resolved.limit_bytes, resolved.absent) == (None, absent)


def test_a_budget_keeps_the_options() -> None:
    spec = parse(("64 MiB",), {"metric": "retained", "tolerance": "5%", "exact": True})
    resolved = resolve(spec, SHAPE, ("cpu",))
    assert (resolved.metric, resolved.exact) == ("retained", True)
    assert resolved.tolerance == parse(("1 B",), {"tolerance": 0.05}).tolerance


@pytest.mark.parametrize(
    ("keywords", "warmup"),
    [
        ({}, 0),
        ({"warmup": 1000}, 1000),
        ({"compiled": "<=eager"}, 1),  # compiles
        ({"compiled": "<=eager", "warmup": 3}, 3),
    ],
    ids=str,
)
def test_runs_before_the_measured_one(keywords: dict[str, Any], warmup: int) -> None:
    spec = parse(("1 B",), keywords)
    assert (spec.warmup, spec.compiled) == (warmup, "compiled" in keywords)


def test_a_marker_keeps_what_it_was_given() -> None:
    assert memory_budget(
        "64 MiB", backend="cpu", device="cpu", warmup=2, N=64, dtype=torch.float16
    ) == BudgetSpec(
        {"default": Limit(64 * MIB, "64 MiB")},
        tolerance=Tolerance(),
        backend="cpu",
        device="cpu",
        warmup=2,
        symbols={"N": 64, "dtype": torch.float16},
    )


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("64 MB", "cannot parse size '64 MB': write '64 MiB' (1 MiB = 1024**2 bytes);"
         " MB is used for both 10**6 and 2**20"),
        ("10 GiBs", f"cannot parse size '10 GiBs': {SIZES}"),
        ("-3 KiB", f"cannot parse size '-3 KiB': a size cannot be negative; {SIZES}"),
        ("1 - 2", 'formula "1 - 2" is negative: -1 bytes; a size cannot be, so change the formula,'
         " as with max(0, ...)"),
        (-1, "limit -1 is negative; a budget is 0 bytes or more"),
        ("__import__('os')", "cannot read formula \"__import__('os')\" at column 1: found"
         f" '__import__', expected a number, a symbol or '('; {GRAMMAR}"),
        ("B.real", "cannot read formula \"B.real\" at column 2: found '.', expected an operator;"
         f" {GRAMMAR}"),
        ("9**9**9", 'formula "9**9**9" has no value: 9^9^9 is too large to be a number of bytes;'
         " change the formula"),
        ("O(log2(N))", "cannot read contract 'O(log2(N))': log2(N) is not a power; a growth"
         " contract is a sum of products of symbols, such as O(N*d), O(N^2) or O(N + d), or O(1)"),
        ({}, "an empty dict is not a budget; write {'cuda': …, 'default': …}"),
        ({"gpu": 1}, f"unknown device kind 'gpu' {KINDS}; did you mean 'cuda'?"),
        ({"cdua": 1}, f"unknown device kind 'cdua' {KINDS}; did you mean 'cuda'?"),
        ({"SM90": 1}, f"unknown device kind 'SM90' {KINDS}"),
        ({0: 1}, f"unknown device kind 0 {KINDS}"),
        ({"cpu": None}, f"cannot read limit None (NoneType); {FORMS}"),
        (KernelModel(MODEL, MODEL),
         "a kernel's model has two budgets; write MODEL.forward or MODEL.training"),
        (1.5, f"cannot read limit 1.5 (float); {FORMS}"),
        (0.0, "cannot read limit: the float 0.0; wrap it in int(...)"),
        (4097.0, "cannot read limit: the float 4097.0; wrap it in int(...)"),
        (2.0**512, f"cannot read limit 1.3407807929942597e+154 (float); {FORMS}"),
        (True, f"cannot read limit True (bool); {FORMS}"),
        ([1, 2], f"cannot read limit [1, 2] (list); {FORMS}"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, KernelModel) else "model",
)  # fmt: skip
def test_a_bad_limit_is_refused(limit: object, text: str) -> None:
    assert refusal(limit) == text


@pytest.mark.parametrize(
    ("limit", "kind"), [("64 MB", SizeError), ("B.real", FormulaError), (1.5, BudgetError)]
)
def test_a_refusal_is_of_what_was_wrong(limit: object, kind: type[AttnMemError]) -> None:
    with pytest.raises(kind):
        parse((limit,), {})


RUNS, RANKS = "is not a number of runs from 0 to 1000", "is not a number of ranks; write ranks=8"
NAME = "is not a name; write {}='cpu', for example"
ARGUMENTS = "does not name arguments of the test; write fixed=('steps',)"
UNKNOWN = f"the limit reads no such symbol, and the options are {OPTIONS}"


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"metric": "rss"}, "unknown metric 'rss'; expected one of peak, allocated, reserved,"
         " retained"),
        ({"exact": 1}, "exact=1 is not a bool; write exact=True or leave it out"),
        ({"warmup": -1}, f"warmup=-1 {RUNS}"),
        ({"warmup": 1001}, f"warmup=1001 {RUNS}"),
        ({"warmup": True}, f"warmup=True {RUNS}"),
        ({"ranks": 0}, f"ranks=0 {RANKS}"),
        ({"ranks": True}, f"ranks=True {RANKS}"),
        ({"ranks": "8"}, f"ranks='8' {RANKS}"),
        ({"compiled": True}, "compiled=True is not a bound; write compiled='<=eager'"),
        ({"fixed": 3}, f"fixed=3 {ARGUMENTS}"),
        ({"fixed": ("a b",)}, f"fixed=('a b',) {ARGUMENTS}"),
        ({"fixed": "steps"}, "fixed='steps' says what a growth contract does not vary, and the"
         " limit has no contract; leave it out"),
        ({"backend": "x" * 65}, f"backend='{'x' * 61}...' {NAME.format('backend')}"),
        ({"backend": 1}, f"backend=1 {NAME.format('backend')}"),
        ({"device": 0}, f"device=0 {NAME.format('device')}"),
        ({"tolerance": "5 MB"}, "cannot read tolerance '5 MB'; write a fraction (0.05), a"
         " percentage ('5%'), a size ('1 MiB') or both ('2%+1MiB')"),
        ({"N": "64"}, "symbol N='64' in the marker is not a whole number"),
        ({"N": 64.0}, "symbol N in the marker is the float 64.0; wrap it in int(...)"),
        ({"zzz": 3}, f"unknown keyword 'zzz': {UNKNOWN}"),
        ({"warm": 1}, f"unknown keyword 'warm': {UNKNOWN}; did you mean 'warmup'?"),
        ({"tolerence": "5%"}, f"unknown keyword 'tolerence': {UNKNOWN}; did you mean 'tolerance'?"),
        ({"seq_length_": 3}, f"unknown keyword 'seq_length_': {UNKNOWN}; did you mean"
         " 'seq_length'?"),
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_keyword_is_refused(keywords: dict[str, Any], text: str) -> None:
    assert refusal("64 MiB", **keywords) == text


def test_one_of_several_limits_may_have_the_contract_that_an_argument_is_fixed_for() -> None:
    spec = parse(({"cuda": "O(N)", "default": "1 KiB"},), {"fixed": "steps"})
    assert spec.fixed == {"steps"}


def test_an_unknown_dtype_is_refused() -> None:
    assert refusal("64 MiB", dtype="float33").startswith("unknown dtype 'float33'; expected")


def test_one_limit_is_given_by_place_or_by_name() -> None:
    assert parse((), {"limit": "1 KiB"}) == parse(("1 KiB",), {})
    for arguments, keywords, why in (
        (("64 MiB", "80 MiB"), {}, "too many positional arguments"),
        (("64 MiB",), {"limit": "80 MiB"}, "multiple values for argument 'limit'"),
    ):
        assert refusal(*arguments, **keywords) == f"expected one limit and keywords: {why}"


@pytest.mark.parametrize(
    ("limit", "keywords"),
    [
        ("window*d", {"window": 3}),
        (lambda shape: shape.window, {"window": 3}),
        ({"cuda": 1, "cpu": "window*2"}, {"window": 3}),
        ({"cuda": 1, "cpu": lambda shape: shape.window}, {"window": 3}),
        (MODEL, {"N": 3}),
        ("1 KiB", {"seq_len": 3, "threads": 1, "dtype": "bf16"}),
    ],
    ids=["formula", "callable", "dict", "dict with a callable", "model", "names of the field"],
)
def test_a_symbol_that_may_be_read_is_a_keyword(limit: object, keywords: dict[str, Any]) -> None:
    assert parse((limit,), keywords).symbols == keywords


def raising(shape: AttentionShape) -> int:
    raise RuntimeError("no such\ntable")


def long(shape: AttentionShape) -> int:
    raise RuntimeError("x" * 187)


def negative(shape: AttentionShape) -> int:
    return -1


def fractional(shape: AttentionShape) -> Any:
    return 1.5


def tensor(shape: AttentionShape) -> Any:
    return torch.zeros(9, 9)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (raising, r"budget raising raised RuntimeError: no such\ntable"),
        (long, f"budget long raised RuntimeError: {'x' * 183}..."),
        (negative, f"budget negative returned -1; {WHOLE}"),
        (fractional, f"budget fractional returned 1.5; {WHOLE}"),
        (lambda shape: HUGE, f"budget <lambda> returned <int of 16610 bits>; {WHOLE}"),
        (
            tensor,
            r"budget tensor returned tensor([[0., 0., 0., 0., 0., 0., 0., 0., 0.],\n"
            rf"        [0., 0....; {WHOLE}",
        ),
    ],
    ids=["raises", "raises at length", "negative", "float", "huge", "tensor"],
)
def test_a_callable_that_gives_no_bytes_is_told_in_one_line(
    limit: Callable[[AttentionShape], int], text: str
) -> None:
    with pytest.raises(BudgetError) as error:
        budget(limit)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("B*window", "symbol 'window' has no value (known: B=2, H=3, Hkv=3, N=5, M=5, d=7, dv=7,"
         " itemsize=4); pass window=… with the limit, name a test argument so, or make the inputs"
         " with the fixture qkv"),
        ("N**9**9", 'formula "N**9**9" has no value with N=5: N^9^9 is too large to be a number of'
         " bytes; change the formula"),
        ("N - 6", 'formula "N - 6" is negative with N=5: -1 bytes; a size cannot be, so change the'
         " formula, as with max(0, ...)"),
    ],
    ids=["unknown symbol", "too large", "negative"],
)  # fmt: skip
def test_a_formula_without_a_value_is_told(limit: str, text: str) -> None:
    with pytest.raises(AttnMemError) as error:
        budget(limit)
    assert str(error.value) == text
    with pytest.raises(BudgetError, match=r"^symbol 'window' has no value"):
        budget(lambda shape: shape.window)


def test_what_another_kind_of_device_has_does_not_count() -> None:
    assert budget({"cuda": "window*2", "cpu": 3}).limit_bytes == 3
    assert budget(MODEL, "sm90", "cuda").limit_bytes == 15  # with its scratch


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("limit", "keywords", "text"),
    [
        (HUGE, {}, "limit <int of 16610 bits> is too large; a budget is below 2**512 bytes"),
        (-HUGE, {}, "limit <int of 16610 bits> is negative; a budget is 0 bytes or more"),
        (2**512, {}, f"limit {str(2**512)[:61]}... is too large; a budget is below 2**512 bytes"),
        ("N", {"N": HUGE}, "symbol N=<int of 16610 bits> in the marker is too large; a symbol is"
         " below 2**512"),
        ("N", {"N": Rude()}, "symbol N=<Rude, its repr raised RuntimeError> in the marker is not a"
         " whole number"),
        (1, {"warmup": HUGE}, "warmup=<int of 16610 bits> is not a number of runs from 0 to 1000"),
        (1, {"exact": Rude()}, "exact=<Rude, its repr raised RuntimeError> is not a bool; write"
         " exact=True or leave it out"),
        (1, {"metric": np.ones(2)}, "unknown metric array([1., 1.]); expected one of peak,"
         " allocated, reserved, retained"),
        (1, {"device": "cuda:" + "9" * 5000}, f"device='cuda:{'9' * 56}...' is not a name; write"
         " device='cpu', for example"),
        (Rude(), {}, f"cannot read limit <Rude, its repr raised RuntimeError> (Rude); {FORMS}"),
        ({HUGE: 1}, {}, f"unknown device kind <int of 16610 bits> {KINDS}"),
    ],
    ids=["limit", "negative", "just too large", "symbol", "rude symbol", "warmup", "rude exact",
         "metric", "device", "rude limit", "kind"],
)  # fmt: skip
def test_what_cannot_be_printed_is_refused_in_one_line(
    limit: object, keywords: dict[str, Any], text: str
) -> None:
    assert refusal(limit, **keywords) == text


def test_the_least_and_the_most_that_are_accepted() -> None:
    assert budget(2**512 - 1).limit_bytes == budget(lambda shape: 2**512 - 1).limit_bytes
    assert parse(("N",), {"N": 2**512 - 1}).symbols == {"N": 2**512 - 1}
    assert parse(("1 B",), {"ranks": 1, "backend": "x" * 64}).backend == "x" * 64
    assert parse((1,), {"device": torch.device("cuda:1")}).device == "cuda:1"
