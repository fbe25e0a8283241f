"""The object behind the ``attnmem`` fixture: measure, region, check, compare, growth and qkv."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from ..backends.primed_backend import PrimedBackend, open_primed
from ..budgets.budget import Budget, BudgetSpec, resolve
from ..budgets.growth_contract import Contract
from ..budgets.growth_fit import Growth, GrowthFindings
from ..budgets.growth_points import grow
from ..budgets.parsing import check_metric
from ..budgets.verdict import Verdict, judge, judge_unfinished
from ..closed_forms.derived import Derived
from ..errors import BudgetError
from ..measurement import qkv_inputs
from ..measurement.measurement import Measurement
from ..measurement.protocol import simulation_context
from ..models.model_memory import ModelMemory, ModelRun, recipe_of
from ..symbols.attention_shape import AttentionShape, Source, begun_again, gather
from ..units import kind_of
from .attribution import traced_call
from .comparison import Comparison, Ratio, Saving, judge_comparison
from .compiled_functions import Compilations, warmup_of
from .conclusion import Conclusions, Ending, Part, Rows, Strictness
from .derive import derive
from .limits import caller_line, check_name, device_facts, parse_call_limit
from .region import Region


class AttnMem:
    """Measures code and judges the measurements against limits; the ``attnmem`` fixture."""

    def __init__(
        self,
        primed: Callable[[str], PrimedBackend] = open_primed,
        sources: tuple[Source, ...] = (),
        rows: Rows | None = None,
        *,
        backend: str = "auto",
        strict: Strictness | None = None,
        explain: str = "auto",
        enforcing: bool = True,
    ) -> None:
        self._primed: Callable[[str | None], PrimedBackend] = lambda name: primed(name or backend)
        self._sources = [*sources]
        self.conclusions = Conclusions(rows, strict or Strictness(), explain, enforcing)
        self._names: Counter[str] = Counter()
        self.regions: list[Region] = []  # that the test made, entered or not
        self._traced: dict[str, Measurement] | None = None  # in a dry run
        self._sizes: qkv_inputs.Resized = {}  # of inputs, in a dry run

    def __repr__(self) -> str:
        return "<attnmem>"

    @property
    def device(self) -> str:
        """The device that the backend measures, as torch names it: ``"cuda:0"``, ``"cpu"``."""
        return str(self._primed(None).backend.device)  # without the marks of this package

    @property
    def computes(self) -> bool:
        """True if tensors have values: false on the null device and in a simulated run."""
        return self._primed(None).backend.computes

    def model(
        self, source: Any, *, inputs: Sequence[str] = (), backend: str | None = None, **options: Any
    ) -> ModelMemory:
        """Returns the memory of a model by module and term; see :func:`pytest_attnmem.model`.

        ``check(found.part("blocks.*", "saved for backward"), "34*layers*B*N*hidden")`` holds a part
        of it to a limit.

        Raises:
            BackendUnavailable: the backend cannot measure here.
            BudgetError: an option is unknown, or the model does not run.
        """
        return ModelRun(source, recipe_of(inputs, options), self._primed(backend)).memory()

    def qkv(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        """Returns inputs for attention on the backend's device; see :func:`pytest_attnmem.qkv`."""
        backend = self._primed(None).backend
        if kwargs.get("device") is None:
            kwargs["device"] = backend.device
        arguments = qkv_inputs.resized(qkv_inputs.read_arguments(args, kwargs), self._sizes)
        with simulation_context(backend):
            tensors = qkv_inputs.qkv(**arguments)
        self._sources.append(qkv_inputs.shape_of(arguments))
        return tensors

    def add_symbols(self, source: Source) -> None:
        """Adds the symbols of a source that became known."""
        self._sources.append(source)

    @property
    def input_sizes(self) -> Mapping[str, int]:
        """Returns the sizes that ``qkv`` was called with."""
        return qkv_inputs.sizes_of(self._sources)

    @contextmanager
    def dry_run(
        self, sizes: qkv_inputs.Resized | None = None, arguments: Source | None = None
    ) -> Iterator[dict[str, Measurement]]:
        """Yields the measurements of a test's regions, at other ``sizes`` of its inputs if given.

        Other ``arguments`` replace the test's own, and all symbols that became known after them.
        No limit raises, and no row is written.
        """
        known, regions = self._sources, len(self.regions)
        self._sources = [*known] if arguments is None else begun_again(known, arguments)
        self._traced, self._sizes = {}, sizes or {}
        self._names.clear()
        try:
            yield self._traced
        finally:
            self._traced, self._sizes = None, {}
            self._names.clear()
            self._sources, self.regions[regions:] = known, []

    def begin_again(self) -> None:
        """Forgets the regions of a run of the test that starts again."""
        for known in (self.regions, self.conclusions.exceeded, self._names):
            known.clear()

    def shape(self, *sources: Source) -> AttentionShape:
        """Returns the symbols of ``sources``, the test's arguments and the inputs made so far."""
        return gather([*sources, *self._sources])

    def measure(
        self,
        fn: Callable[..., Any],
        *args: Any,
        warmup: int = 0,
        backend: str | None = None,
        **kwargs: Any,
    ) -> Measurement:
        """Measures one call ``fn(*args, **kwargs)``, after ``warmup`` calls that are not measured.

        The value that ``fn`` returns counts as retained and is kept as ``result``. If memory runs
        out, the measurement says so (``out_of_memory``); other errors are raised.

        Raises:
            BackendUnavailable: the backend cannot measure here.
        """
        if not callable(fn):
            raise BudgetError(
                f"measure takes a function and its arguments, measure(fn, q, k, v); got a"
                f" {type(fn).__name__}, perhaps the value that the function returned"
            )
        primed = self._primed(backend)

        def call() -> Any:
            return fn(*args, **kwargs)

        primed.warm_up(call, warmup)
        measurement, result = primed.run(call)
        return replace(measurement, result=result, trace=partial(traced_call, primed, fn, call))

    def region(
        self,
        name: str,
        limit: Any = None,
        *,
        metric: str = "peak",
        tolerance: Any = 0,
        exact: bool = False,
        backend: str | None = None,
        **symbols: Any,
    ) -> Region:
        """Measures the body of a ``with``; raises at its end if the body exceeds ``limit``.

        Regions nest and repeat; each is a row of the report. Its ``measurement`` is set at the end.

        Raises:
            BudgetExceeded: the region exceeded its limit.
            BudgetError: the limit cannot be read, or a symbol of it has no value.
        """
        check_name(name, limit)
        options = {"metric": metric, "tolerance": tolerance, "exact": exact}
        spec = parse_call_limit("region", limit, options, symbols)
        primed = self._primed(backend)
        judged = partial(self._judge_region, spec=spec, primed=primed)
        region = Region(
            self._unique(name), primed, primed.window(metric), judged, bool(spec.limits)
        )
        self.regions.append(region)
        return region

    def check(
        self,
        measurement: Measurement | ModelMemory,
        limit: Any = None,
        *,
        metric: str = "peak",
        tolerance: Any = 0,
        exact: bool = False,
        name: str = "check",
        **symbols: Any,
    ) -> Verdict:
        """Returns the verdict on a measurement or a model by its limit, or its baseline alone.

        Raises:
            BudgetExceeded: the measurement exceeds the limit or its baseline.
            BudgetError: the limit cannot be read, or a symbol of it has no value.
        """
        options = {"metric": metric, "tolerance": tolerance, "exact": exact}
        spec = parse_call_limit("check", limit, options, symbols)
        found = measurement.measurement if isinstance(measurement, ModelMemory) else measurement
        if not isinstance(found, Measurement):
            raise BudgetError(
                f"check takes the Measurement that measure returned; got {kind_of(measurement)}"
            )
        shape = self.shape(Source("check", symbols), device_facts(found))
        verdict = judge(found, resolve(spec, shape, found.kinds))
        return self._enforce(name, verdict, found, shape)

    def compare(
        self,
        new: Callable[[], Any],
        base: Callable[[], Any],
        *,
        max_ratio: Ratio | None = None,
        min_saving: Saving | None = None,
        metric: str = "peak",
        warmup: int = 0,
        backend: str | None = None,
    ) -> Comparison:
        """Measures both and judges ``new`` by ``base``; without a bound, ``new`` may not need more.

        ``max_ratio`` is the upper bound of new / base. ``min_saving`` is the lower bound of
        base - new: a size, a formula, or a share of base (``"40%"``, ``0.4``). Both may be given.

        Raises:
            BudgetExceeded: ``new`` needs more than the bound.
            BudgetError: a bound cannot be read.
        """
        check_metric(metric)
        before, runs = warmup_of(base, warmup), warmup_of(new, warmup)
        reference = replace(self.measure(base, warmup=before, backend=backend), result=None)
        compiled = Compilations()
        measured = replace(self.measure(new, warmup=runs, backend=backend), result=None)
        shape = self.shape()
        bounds = (max_ratio, min_saving)
        verdict = judge_comparison(measured, reference, bounds, metric, caller_line(), shape)
        verdict = self._enforce("compare", compiled.named(verdict), measured, shape)
        return Comparison(measured, reference, verdict, metric)

    def growth(
        self,
        fn: Callable[..., Any],
        *,
        metric: str = "peak",
        warmup: int = 0,
        backend: str | None = None,
        **sizes: Iterable[int],
    ) -> Growth:
        """Measures ``fn(N=…)`` at each size of ``N=[256, 512, 1024, 2048]``, and fits it exactly.

        With several symbols, every combination is measured. ``Growth`` has ``formula``,
        ``degree`` and ``assert_within("O(N)")``.

        Raises:
            BudgetError: there are too few sizes, or the function does not take one.
        """
        check_metric(metric)

        def measured(call: Callable[[], Any]) -> Measurement:
            return replace(self.measure(call, warmup=warmup, backend=backend), result=None)

        def traced(call: Callable[[], Any]) -> Measurement:
            return traced_call(self._primed(backend), fn, call, sys.maxsize)

        return replace(grow(measured, fn, sizes, metric, traced), enforce=self._assert_within)

    def derive(self, fn: Callable[..., Any], *shapes: Any, **options: Any) -> Derived:
        """Returns the closed form of the peak of ``fn``; see :func:`pytest_attnmem.derive`."""
        return derive(fn, *shapes, **options)

    def _judge_region(
        self,
        name: str,
        measurement: Measurement,
        error: BaseException | None,
        spec: BudgetSpec,
        primed: PrimedBackend,
    ) -> Verdict | None:
        if self._traced is not None:
            self._traced[name] = measurement
            return None
        shape = self.shape(Source("the region", spec.symbols), device_facts(measurement))
        part, judged = Part(name, shape, primed, limited=bool(spec.limits)), None
        if error is not None and measurement.out_of_memory is None:
            if not spec.limits:
                return None
            part, why = replace(part, ending=Ending.FAILED), f"left by {type(error).__name__}"
            judged = judge_unfinished(measurement, spec, shape, f"the region was {why}")
        elif spec.limits or measurement.out_of_memory is not None:
            judged = judge(measurement, resolve(spec, shape, measurement.kinds))
        return self.conclusions.enforce(part, judged, measurement)

    def _assert_within(self, growth: Growth, contract: Contract) -> None:
        budget = Budget(None, contract.text, {}, caller_line(), growth.metric, contract=contract)
        if growth.largest is not None:
            verdict = judge(growth.largest, budget, lambda *_: GrowthFindings((growth,)))
            self._enforce("growth", verdict, growth.largest, self.shape())

    def _enforce(
        self, name: str, verdict: Verdict, measurement: Measurement, shape: AttentionShape
    ) -> Verdict:
        limited = not verdict.budget.unlimited
        part = Part(self._unique(name), shape, trace=measurement.trace, limited=limited)
        if self._traced is not None:
            return verdict
        return self.conclusions.enforce(part, verdict, measurement) or verdict

    def _unique(self, name: str) -> str:
        self._names[name] = number = self._names[name] + 1
        return name if number == 1 else self._unique(f"{name} #{number}")
