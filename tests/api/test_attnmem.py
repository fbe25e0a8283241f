"""measure, region, check and compare: on the real CPU, and on a scripted backend."""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from kept_rows import KeptRows
from scripted_backend import ScriptedBackend

import pytest_attnmem
from pytest_attnmem.api.attnmem import AttnMem
from pytest_attnmem.api.conclusion import Strictness
from pytest_attnmem.backends.primed_backend import PrimedBackend, open_primed
from pytest_attnmem.budgets.budget import Obstacle
from pytest_attnmem.budgets.verdict import Outcome, Verdict
from pytest_attnmem.errors import (
    AttnMemError,
    BackendUnavailable,
    BudgetError,
    BudgetExceeded,
    NotEnforced,
)
from pytest_attnmem.measurement.measurement import Measurement
from pytest_attnmem.measurement.protocol import Delta, Interval
from pytest_attnmem.symbols.attention_shape import Source

MIB = 1024**2
IMPOSSIBLE = 2**50
ASKED = "tried to allocate 1024.0 TiB at test_attnmem.py:N"
WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED
#: The note of a region outside pytest: there is no test to run again.
UNTRACED = "  held tensors are unknown: a region runs again only with its test"
PARTS = "  attnmem explain parts"


class Scripted(ScriptedBackend):
    """On a device of two names, with a fact that formulas may read."""

    def __init__(self, *stretches: Interval) -> None:
        super().__init__(*stretches)
        self.kinds, self.symbols = ("sm90", "cuda"), {"threads": 2}

    def out_of_memory(self, error: BaseException) -> str | None:
        return "tried to allocate 9 B" if isinstance(error, MemoryError) else None


def rose(high: int, net: int = 0, **others: Any) -> Interval:
    return Interval(Delta(high, net), Delta(high, net), Delta(high, net), 1, **others)


def scripted(*stretches: Interval, **options: Any) -> AttnMem:
    primed = PrimedBackend(Scripted(*stretches), 7)
    return AttnMem(lambda name: primed, **options)


@pytest.fixture(scope="module")
def cpu() -> PrimedBackend:
    return open_primed("cpu")


@pytest.fixture
def memory(cpu: PrimedBackend) -> AttnMem:
    return AttnMem(lambda name: cpu)


def ones(*sizes: int) -> torch.Tensor:
    return torch.ones(*sizes)


def squares(n: int = 8) -> torch.Tensor:
    scores = torch.ones(n, n)
    return -scores


def impossible() -> torch.Tensor:
    return torch.empty(IMPOSSIBLE, dtype=torch.uint8)


def steady(text: str | None) -> str:
    """A text without the numbers of source lines, which change with every edit."""
    return re.sub(r"\.py:\d+", ".py:N", str(text))


def exceeded(call: Callable[[], object]) -> list[str]:
    """The lines of the error."""
    with pytest.raises(BudgetExceeded) as error:
        call()
    return steady(str(error.value)).splitlines()


class TestMeasure:
    def test_bytes_are_exact_every_time(self, memory: AttnMem) -> None:
        measured = memory.measure(squares)
        assert (measured.peak_bytes, measured.retained_bytes) == (2 * 256, 256)
        assert (measured.allocated_bytes, measured.reserved_bytes) == (2 * 256, None)
        assert (measured.allocations, measured.backend, measured.device) == (2, "cpu", "cpu")
        assert measured.unmeasured is None
        assert {memory.measure(squares).peak_bytes for _ in range(50)} == {512}

    def test_what_is_returned_is_retained_and_what_is_dropped_is_not(self, memory: AttnMem) -> None:
        measured = memory.measure(torch.full, (3,), fill_value=2.0)
        assert (measured.result.tolist(), measured.peak_bytes) == ([2.0] * 3, 12)
        assert measured.retained_bytes == 12
        measured = memory.measure(lambda: squares().sum().item())
        assert (measured.result, measured.retained_bytes) == (-64.0, 0)
        measured = memory.measure(int)
        assert (measured.peak_bytes, measured.allocations, measured.result) == (0, 0, 0)

    def test_what_died_in_the_window_is_below_its_start(self, memory: AttnMem) -> None:
        kept: list[torch.Tensor] = []
        memory.measure(lambda: kept.append(torch.ones(4)))
        measured = memory.measure(kept.clear)
        assert (measured.peak_bytes, measured.retained_bytes) == (0, -16)

    def test_warmups_are_not_measured(self, memory: AttnMem) -> None:
        calls: list[torch.Tensor] = []

        def caching() -> None:
            if not calls:
                torch.ones(1000)
            calls.append(torch.ones(1))

        assert memory.measure(caching, warmup=2).peak_bytes == 4
        assert len(calls) == 3

    def test_the_workspace_is_of_the_primed_backend(self) -> None:
        assert scripted(rose(10)).measure(int).workspace_bytes == 7

    def test_the_backend_that_is_asked_for_is_used(self, cpu: PrimedBackend) -> None:
        asked: list[str] = []
        memory = AttnMem(lambda name: (asked.append(name), cpu)[1])
        memory.measure(int)
        memory.measure(int, backend="cuda:1")
        assert asked == ["auto", "cuda:1"]

    def test_running_out_of_memory_is_a_result(self, memory: AttnMem) -> None:
        def body() -> None:
            kept = torch.ones(4)
            impossible()
            del kept

        measured = memory.measure(body)
        assert steady(measured.out_of_memory) == ASKED
        assert (measured.peak_bytes, measured.result) == (16, None)

    def test_other_errors_are_the_functions_own(self, memory: AttnMem) -> None:
        with pytest.raises(ZeroDivisionError):
            memory.measure(lambda: 1 / 0)
        assert memory.measure(ones, 4).peak_bytes == 16

    def test_it_can_run_inside_a_region(self, memory: AttnMem) -> None:
        with memory.region("outer") as outer:
            kept = torch.ones(4)
            measured = memory.measure(squares)
            del kept
        assert measured.peak_bytes == 512
        assert outer.measurement.peak_bytes == 16 + 512

    def test_an_unknown_backend_is_refused(self) -> None:
        with pytest.raises(BackendUnavailable) as error:
            pytest_attnmem.measure(int, backend="tpu")
        assert str(error.value) == (
            "unknown backend 'tpu'; expected one of auto, cuda, accelerator, null, cpu, simulated"
        )


class TestRegion:
    @pytest.mark.parametrize(
        ("limit", "options"),
        [("1 KiB", {}), (512, {"exact": True}), (250, {"metric": "retained", "tolerance": "6 B"})],
    )
    def test_a_region_is_measured_when_it_ends(
        self, memory: AttnMem, limit: object, options: dict[str, Any]
    ) -> None:
        region = memory.region("scores", limit, **options)
        assert (region.measurement, region.verdict) == (None, None)
        with region as entered:
            kept = squares()
        del kept
        assert entered is region
        assert region.measurement.peak_bytes == 512
        assert region.verdict.outcome is WITHIN

    def test_a_region_over_its_limit_raises_where_it_ends(self, memory: AttnMem) -> None:
        def body() -> None:
            with memory.region("scores", "16*N - 1", N=32):
                squares()

        assert exceeded(body) == [
            "scores: peak 512 B exceeds budget 511 B by 1 B on cpu",
            "  budget    16*N - 1   N=32   test_attnmem.py:N",
            UNTRACED,
            PARTS,
        ]

    def test_regions_nest_and_what_an_inner_one_keeps_counts_on_outside(
        self, memory: AttnMem
    ) -> None:
        with memory.region("outer") as outer:
            with memory.region("middle") as middle:
                with memory.region("inner") as inner:
                    kept = squares()
                squares(4)
            squares(16)
            del kept
        regions = [region.measurement for region in (inner, middle, outer)]
        assert [one.peak_bytes for one in regions] == [512, 512, 256 + 2048]
        assert [one.retained_bytes for one in regions] == [256, 256, 0]
        assert outer.verdict is None  # without a limit

    def test_regions_of_different_windows_nest(self) -> None:
        # Two backend objects for one device.
        with pytest_attnmem.region("outer", backend="cpu") as outer:
            with pytest_attnmem.region("inner", backend="cpu") as inner:
                squares()
            ones(4)
        assert (inner.measurement.peak_bytes, inner.measurement.allocations) == (512, 2)
        assert (outer.measurement.peak_bytes, outer.measurement.allocations) == (512, 3)

    def test_a_region_that_repeats_is_numbered(self, memory: AttnMem) -> None:
        names = []
        for _ in range(3):
            with memory.region("step") as region:
                names.append(region.name)
        assert names == ["step", "step #2", "step #3"]
        assert repr(region) == "<region 'step #3'>"

    @pytest.mark.parametrize("own", range(3))
    def test_a_name_that_looks_numbered_is_not_taken_twice(self, memory: AttnMem, own: int) -> None:
        asked = ["step", "step"]
        asked.insert(own, "step #2")
        names = [memory.region(name).name for name in asked]
        assert names[own] == "step #2" if own < 2 else "step #2 #2"
        assert len({*names}) == 3

    @pytest.mark.parametrize(
        ("limit", "outcome"),
        [(1, OVER), ("1 KiB", NOT_ENFORCED), ("missing", NOT_ENFORCED), (None, None)],
    )
    def test_an_error_inside_goes_on_and_is_never_within(
        self, memory: AttnMem, limit: object, outcome: Outcome | None
    ) -> None:
        region = memory.region("scores", limit)
        with pytest.raises(ZeroDivisionError), region:
            squares().tolist()[0][0] / 0
        assert region.measurement is not None
        assert (region.verdict and region.verdict.outcome) is outcome

    @pytest.mark.parametrize("limit", [None, "1 KiB"])
    def test_running_out_of_memory_is_over(self, memory: AttnMem, limit: str | None) -> None:
        with pytest.raises(BudgetExceeded) as error, memory.region("scores", limit):
            impossible()
        budget = "; budget 1.0 KiB" if limit else ""
        first, *rest, last = steady(str(error.value)).splitlines()
        assert first == (f"scores: out of memory on cpu: {ASKED}{budget}")
        assert last == "  attnmem explain out-of-memory"
        assert len(rest) == bool(limit)
        assert isinstance(error.value.__context__, RuntimeError)

    @pytest.mark.parametrize(
        ("of", "options", "text"),
        [
            ("region", {"limit": "64 MB"}, "cannot parse size '64 MB': write '64 MiB' (1 MiB = "),
            (
                "region",
                {"metric": "rss"},
                "unknown metric 'rss'; expected one of peak, allocated, ",
            ),
            ("region", {"warmup": 1}, "a region takes no warmup"),
            ("region", {"device": "cuda"}, "a region takes no device"),
            ("region", {"tolerence": 1}, "unknown keyword 'tolerence': the limit reads no such "),
            ("check", {"limit": "10 GiBs"}, "cannot parse size '10 GiBs'"),
            ("check", {"backend": "cpu"}, "a check takes no backend"),
            ("check", {"device": "cpu"}, "a check takes no device"),
            ("check", {"warmup": 1}, "a check takes no warmup"),
        ],
        ids=str,
    )
    def test_what_cannot_be_read_is_refused_before_it_begins(
        self, memory: AttnMem, seen: Measurement, of: str, options: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(AttnMemError) as error:
            getattr(memory, of)(*{"region": ("scores",), "check": (seen,)}[of], **options)
        assert str(error.value).startswith(text)

    def test_a_symbol_without_a_value_is_told_when_it_ends(self, memory: AttnMem) -> None:
        region = memory.region("scores", "N*N")
        with (
            pytest.raises(BudgetError, match=r"^symbol 'N' has no value \(known: threads="),
            region,
        ):
            squares()

    def test_a_symbol_may_become_known_inside(self, memory: AttnMem) -> None:
        with memory.region("scores", "B*H*N*M*itemsize", exact=True) as region:
            q, k, _ = memory.qkv(1, 2, 4, 8)
            _ = q @ k.mT
        assert region.verdict.outcome is WITHIN

    def test_a_number_that_the_backend_has_not_is_not_enforced(self, memory: AttnMem) -> None:
        with memory.region("scores", "1 KiB", metric="reserved") as region:
            squares()
        reason = "reserved is not measured on cpu"
        assert (region.verdict.outcome, region.verdict.reason) == (NOT_ENFORCED, reason)


class TestCheck:
    def test_a_limit_that_is_kept_gives_a_verdict(self, memory: AttnMem) -> None:
        verdict = memory.check(memory.measure(squares), "2*N^2*4", exact=True, N=8)
        assert verdict.outcome is WITHIN
        verdict = memory.check(memory.measure(int), "1 KiB")
        assert (verdict.outcome, verdict.reason) == (NOT_ENFORCED, "nothing was allocated")
        with_facts = scripted(rose(20))  # of its device
        verdict = with_facts.check(with_facts.measure(int), {"sm90": "10*threads", "cuda": 1})
        assert verdict.outcome is WITHIN

    def test_one_byte_less_raises_with_what_was_held(self, memory: AttnMem) -> None:
        measured = memory.measure(squares)
        assert exceeded(lambda: memory.check(measured, "2*N^2*4 - 1", name="it", N=8, B=1)) == [
            "it: peak 512 B exceeds budget 511 B by 1 B on cpu",
            "  budget    2*N^2*4 - 1   N=8   test_attnmem.py:N",
            "  held at the peak (2 tensors):",
            "    256 B  [8, 8] float32  ones  test_attnmem.py:N  in squares",
            "    256 B  [8, 8] float32  neg   test_attnmem.py:N  in squares",
            "  attnmem explain temporaries",
        ]

    def test_finding_out_who_held_it_is_no_part_of_a_window_around(self, memory: AttnMem) -> None:
        with memory.region("outer") as outer:
            measured = memory.measure(squares)
            with pytest.raises(BudgetExceeded, match="held at the peak") as error:
                memory.check(measured, 1)
            assert "ones" in str(error.value)
        assert (outer.measurement.peak_bytes, outer.measurement.allocations) == (512, 2)

    @pytest.mark.parametrize(
        ("first", "second", "note"),
        [
            (10, 1, "and 9.0 MiB that the second run did not account for"
             " (scratch inside kernels, most likely)"),
            (1, 2, "the second run, eager, without scratch or frees of older tensors, held"
             " 2.0 MiB"),
        ],
    )  # fmt: skip
    def test_a_second_run_that_needs_other_memory_is_told(
        self, first: int, second: int, note: str
    ) -> None:
        memory = scripted(rose(first * MIB), rose(second * MIB))
        measured = memory.measure(int)
        assert exceeded(lambda: memory.check(measured, 1))[-2] == f"  {note}"

    def test_a_second_run_that_fails_is_told_in_one_line(self, memory: AttnMem) -> None:
        runs: list[int] = []

        def once() -> torch.Tensor:
            runs.append(1)
            if len(runs) > 1:
                raise RuntimeError("the\nbuffer is gone")
            return torch.ones(4)

        measured = memory.measure(once)
        assert exceeded(lambda: memory.check(measured, 1)) == [
            "check: peak 16 B exceeds budget 1 B (16.0x) on cpu",
            "  budget    1 B   test_attnmem.py:N",
            "  held tensors are unknown: the second run raised RuntimeError: the buffer is gone",
            PARTS,
        ]

    def test_a_regions_measurement_can_be_checked_and_not_explained(self, memory: AttnMem) -> None:
        with memory.region("scores") as region:
            squares()
        measured = region.measurement
        assert measured is not None
        assert exceeded(lambda: memory.check(measured, 1))[-2:] == [UNTRACED, PARTS]

    def test_nothing_runs_again_where_that_is_off(self, cpu: PrimedBackend) -> None:
        runs: list[int] = []
        memory = AttnMem(lambda name: cpu, explain="off")
        measured = memory.measure(lambda: (runs.append(1), squares()))
        assert len(exceeded(lambda: memory.check(measured, 1))) == 3
        assert len(runs) == 1

    def test_out_of_memory_is_over_and_does_not_run_again(self, memory: AttnMem) -> None:
        measured = memory.measure(impossible)
        assert exceeded(lambda: memory.check(measured, "1 KiB")) == [
            f"check: out of memory on cpu: {ASKED}; budget 1.0 KiB",
            "  budget    1 KiB   test_attnmem.py:N",
            "  attnmem explain out-of-memory",
        ]

    def test_what_is_not_enforced_fails_where_that_is_asked_for(self, cpu: PrimedBackend) -> None:
        memory = AttnMem(lambda name: cpu, strict=Strictness("all"))
        measured = memory.measure(int)
        with pytest.raises(NotEnforced) as error:
            memory.check(measured, "1 KiB")
        assert str(error.value).splitlines()[:2] == [
            "check: not enforced: nothing was allocated",
            f"  {Obstacle.NOTHING_ALLOCATED.remedy}",
        ]

    def test_symbols_that_disagree_are_named(self, memory: AttnMem, seen: Measurement) -> None:
        memory.add_symbols(Source("the test's arguments", {"N": 4}))
        with pytest.raises(BudgetError) as error:
            memory.check(seen, "N*N", N=8)
        assert str(error.value) == (
            "symbol 'N' has two values: N=8 from check, N=4 from the test's arguments"
        )


class TestCompare:
    def test_new_may_not_need_more_than_base(self, memory: AttnMem) -> None:
        comparison = memory.compare(squares, squares)
        assert comparison.verdict.outcome is WITHIN
        assert (comparison.ratio, comparison.metric) == (1, "peak")
        assert (comparison.new.result, comparison.base.result) == (None, None)  # not kept

    def test_new_that_needs_more_raises_with_what_it_held(self, memory: AttnMem) -> None:
        lines = exceeded(lambda: memory.compare(lambda: squares(16), lambda: squares(8)))
        assert lines == [
            "compare: peak of new, 2.0 KiB, is 4.00x of base; allowed 512 B, 1x base 512 B on cpu",
            "  budget    1x base 512 B   test_attnmem.py:N",
            "  held at the peak (2 tensors):",
            "    1.0 KiB  [16, 16] float32  ones  test_attnmem.py:N  in squares",
            "    1.0 KiB  [16, 16] float32  neg   test_attnmem.py:N  in squares",
            "  attnmem explain temporaries",
        ]

    def test_bounds_that_are_just_kept_and_just_not(self, memory: AttnMem) -> None:
        new, base = lambda: squares(8), lambda: squares(16)
        comparison = memory.compare(new, base, max_ratio="25%", min_saving="1536 B")
        assert comparison.verdict.outcome is WITHIN
        assert comparison.ratio == Fraction(1, 4)
        over = r"^compare #\d: peak of new, 512 B, is 0.25x of base; allowed "
        for ratio, saving in ((0.249, None), (None, "1537 B"), (0.5, "76%")):
            with pytest.raises(BudgetExceeded, match=over):
                memory.compare(new, base, max_ratio=ratio, min_saving=saving)

    def test_retained_bytes_are_of_each_run_alone(self, memory: AttnMem) -> None:
        comparison = memory.compare(lambda: ones(4), lambda: ones(8), metric="retained")
        assert (comparison.new.retained_bytes, comparison.base.retained_bytes) == (16, 32)
        assert comparison.ratio == Fraction(1, 2)

    def test_both_are_warmed_up(self, memory: AttnMem) -> None:
        runs: list[str] = []
        memory.compare(
            lambda: (runs.append("new"), ones(1)),
            lambda: (runs.append("base"), ones(1)),
            warmup=1,
        )
        assert runs == ["base", "base", "new", "new"]

    @pytest.mark.parametrize(
        ("base", "reason"),
        [
            (int, "the base was not measured: nothing was allocated"),
            (impossible, "the base ran out of memory"),
        ],
    )
    def test_a_base_that_is_not_known_proves_nothing(
        self, memory: AttnMem, base: Callable[[], object], reason: str
    ) -> None:
        comparison = memory.compare(squares, base)
        verdict = comparison.verdict
        assert (verdict.outcome, verdict.reason) == (NOT_ENFORCED, reason)
        assert comparison.ratio is None or base is impossible

    def test_new_that_runs_out_of_memory_is_over(self, memory: AttnMem) -> None:
        lines = exceeded(lambda: memory.compare(impossible, squares))
        assert lines[0] == (f"compare: out of memory on cpu: {ASKED}; budget 512 B")

    def test_an_unknown_metric_is_refused_before_anything_runs(self, memory: AttnMem) -> None:
        runs: list[int] = []
        with pytest.raises(BudgetError) as error:
            memory.compare(lambda: runs.append(1), lambda: runs.append(1), metric="rss")
        assert str(error.value) == (
            "unknown metric 'rss'; expected one of peak, allocated, reserved, retained"
        )
        assert not runs


class TestSymbols:
    def test_inputs_are_on_the_backends_device_and_known(self, memory: AttnMem) -> None:
        q, k, _ = memory.qkv(1, 4, 8, 16, Hkv=2, dtype=torch.float16)
        assert q.device.type == "cpu"
        measured = memory.measure(torch.matmul, q[:, :2], k.mT)
        assert measured.result.numel() == 1 * 2 * 8 * 8
        memory.check(measured, "B*Hkv*N*M*itemsize", exact=True, metric="retained")

    def test_inputs_of_two_sizes_disagree_only_where_it_matters(self, memory: AttnMem) -> None:
        memory.qkv(1, 4, 8, 16)
        memory.qkv(1, 4, 9, 16)
        assert memory.shape().H == 4
        with pytest.raises(BudgetError) as error:
            _ = memory.shape().N
        assert str(error.value) == "symbol 'N' has two values: N=8 from qkv, N=9 from qkv"

    def test_inputs_that_cannot_be_made_tell_no_symbols(self, memory: AttnMem) -> None:
        with pytest.raises(BudgetError):
            memory.qkv(1, 0, 8, 16)
        text = "^qkv takes B, H, N, d and keywords: missing a required argument: 'd'$"
        with pytest.raises(BudgetError, match=text):
            memory.qkv(1, 4, 8)
        assert memory.shape().symbols == {}

    def test_what_it_was_given_comes_first(self) -> None:
        memory = AttnMem(sources=(Source("the marker", {"N": 4}),))
        memory.add_symbols(Source("the test's arguments", {"B": 2}))
        assert memory.shape(Source("check", {"d": 3})).symbols == {
            **{"B": 2, "N": 4, "M": 4, "d": 3, "dv": 3}
        }


class TestRows:
    """The rows that the plugin writes."""

    def test_every_region_and_check_is_a_row(self, cpu: PrimedBackend) -> None:
        kept = KeptRows()
        memory = AttnMem(lambda name: cpu, rows=kept)
        with memory.region("a", N=3):
            ones(2)
        with memory.region("b", "1 KiB"):
            ones(3)
        memory.check(memory.measure(ones, 4), "1 KiB")
        memory.compare(squares, squares)
        rows = [
            (part.name, verdict and verdict.outcome, measured and measured.peak_bytes)
            for part, verdict, measured in kept.rows
        ]
        assert rows == [
            ("a", None, 8),
            ("b", WITHIN, 12),
            ("check", WITHIN, 16),
            ("compare", WITHIN, 512),
        ]
        assert kept.rows[0][0].shape.N == 3

    def test_a_row_is_kept_before_the_error_with_what_was_held(self, cpu: PrimedBackend) -> None:
        kept = KeptRows()
        memory = AttnMem(lambda name: cpu, rows=kept)
        measured = memory.measure(squares)
        with pytest.raises(BudgetExceeded):
            memory.check(measured, 1)
        [(_, verdict, _)] = kept.rows
        assert [held.op for held in verdict.measurement.held] == ["ones", "neg"]

    def test_the_keepers_verdict_counts(self, cpu: PrimedBackend) -> None:
        over = Verdict(OVER, "peak 2 B exceeds budget 1 B (in an earlier attempt)")
        memory = AttnMem(lambda name: cpu, rows=KeptRows(over))
        measured = memory.measure(squares)
        assert exceeded(lambda: memory.check(measured, "1 KiB")) == [
            "check: peak 2 B exceeds budget 1 B (in an earlier attempt)",
            PARTS,
        ]

    def test_where_nothing_is_enforced_nothing_is_kept_nor_raised(self, cpu: PrimedBackend) -> None:
        kept, strict = KeptRows(), Strictness("all")
        memory = AttnMem(lambda name: cpu, rows=kept, enforcing=False, strict=strict)
        with memory.region("a", 1) as region:
            squares()
        with memory.region("b"):
            squares()
        assert region.measurement is not None
        assert memory.check(region.measurement, 1).outcome is OVER
        assert memory.compare(lambda: squares(9), squares).verdict.outcome is OVER
        assert kept.rows == []

    def test_what_was_over_is_kept_for_a_second_run(self, memory: AttnMem) -> None:
        with pytest.raises(BudgetExceeded) as error, memory.region("scores", 1):
            squares()
        [kept] = memory.conclusions.exceeded
        assert kept.error is error.value
        assert kept.part.name == "scores"
        held = memory.measure(squares)
        assert held.trace is not None
        trace = held.trace
        before = str(error.value)
        memory.conclusions.complete(lambda part: trace)
        [complete] = memory.conclusions.exceeded
        assert complete.raised is error.value
        assert str(error.value) == before
        assert "held at the peak (2 tensors)" in str(complete.error)
        assert "not known" not in str(complete.error)
        assert complete.explains(error.value)

    def test_a_rehearsal_measures_and_does_nothing_else(self, cpu: PrimedBackend) -> None:
        kept = KeptRows()
        memory = AttnMem(lambda name: cpu, rows=kept)
        with memory.region("a"):
            pass
        kept.rows.clear()
        with memory.dry_run() as traced:
            memory.qkv(1, 1, 8, 8)
            with memory.region("a", 1):
                squares()
            with memory.region("a", 1):
                squares(4)
            memory.check(memory.measure(squares), 1)
        assert {name: measured.peak_bytes for name, measured in traced.items()} == {
            "a": 512,
            "a #2": 128,
        }
        assert kept.rows == []
        assert memory.shape().symbols == {}


class TestFunctions:
    """The same without pytest, from the package."""

    def test_they_measure_check_and_compare(self) -> None:
        measured = pytest_attnmem.measure(squares, 8, backend="cpu", warmup=1)
        assert pytest_attnmem.check(measured, 512, exact=True).outcome is WITHIN
        new, base = lambda: squares(8), lambda: squares(16)
        comparison = pytest_attnmem.compare(new, base, min_saving="75%", backend="cpu")
        assert comparison.ratio == Fraction(1, 4)

    @pytest.mark.parametrize("kind", ["region", "check", "compare"])
    def test_failures_name_the_line_that_called(self, kind: str) -> None:
        measured = replace(pytest_attnmem.measure(squares, backend="cpu"), trace=None)

        def region() -> None:
            with pytest_attnmem.region("x", 1, backend="cpu"):
                squares()

        calls: dict[str, Callable[[], object]] = {
            "region": region,
            "check": lambda: pytest_attnmem.check(measured, 1),
            "compare": lambda: pytest_attnmem.compare(squares, lambda: ones(1), backend="cpu"),
        }
        assert exceeded(calls[kind])[1].endswith("   test_attnmem.py:N")

    def test_a_violation_is_an_assertion(self, seen: Measurement) -> None:
        with pytest.raises(AssertionError):
            pytest_attnmem.check(seen, 1)
