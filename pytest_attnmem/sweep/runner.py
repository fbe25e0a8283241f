"""Runs cases, one by one, each into a row; what goes wrong is a row too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..backends.primed_backend import PrimedBackend
from ..errors import AttnMemError, BudgetError
from ..measurement.peak_components import Component, decompose
from ..profiles import DeviceProfile
from ..units import shown
from .case import Case
from .dimensions import placed
from .extrapolation import MOST, PERIOD, allocations, by_growth, by_model
from .memory import Seen, observe
from .results import ERROR, OK, OOM, UNMEASURED, Row
from .timing import mean_times

#: More than any device has.
_ENDLESS: Final = 1 << 70
_EACH: Final = "simulated"


class Bench:
    """One device, and how a sweep measures on it."""

    def __init__(
        self,
        primed: PrimedBackend,
        *,
        passes: int = 100,
        warmup: int = 5,
        tracing: bool = False,
    ) -> None:
        """With ``tracing``, what is not simulated runs once more to see who holds the peak."""
        self.primed = primed
        self.profile: DeviceProfile | None = getattr(primed.backend, "profile", None)
        self._passes, self._warmup = passes, warmup
        self._tracing = tracing
        self._endless: PrimedBackend | None = None
        self._met: set[str] = set()
        self._known: dict[tuple[Any, ...], Seen] = {}  # of short lengths, without tensors

    @property
    def simulated(self) -> bool:
        """Whether nothing is run but the bookkeeping of memory."""
        return self.profile is not None

    def row(self, case: Case) -> Row:
        """What becomes of the case; running out of memory and other errors are rows."""
        try:
            return self._row(case)
        except KeyboardInterrupt:
            raise
        except AttnMemError as error:
            return self._blank(case, status=ERROR, reason=str(error))
        except Exception as error:
            return self._blank(case, status=ERROR, reason=shown(error, 160))

    def fits(self, case: Case) -> bool:
        """Whether the device has the memory for it, as simulated, or as told otherwise.

        Raises:
            AttnMemError: that cannot be told, or the attention does not take the case.
        """
        try:
            seen, how = self._seen(case)
        except (AttnMemError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise BudgetError(f"{case}: the kernel raised {shown(error, 160)}") from error
        return self._refusal(seen, how) == "" and not seen.unmeasured

    def _row(self, case: Case) -> Row:
        kind = self.primed.backend.device.partition(":")[0]
        if kind not in case.attention.devices:
            where = ", ".join(case.attention.devices)
            return self._blank(case, status=ERROR, reason=f"{case.attention.name} runs on {where}")
        seen, how = self._seen(case)
        row = self._blank(case, by=how)
        refusal = self._refusal(seen, how)
        if refusal:
            row = replace(row, status=OOM, reason=refusal)
            if self.simulated and seen.peak_bytes is None:
                seen = self._on_endless(case)
        else:
            row = replace(row, before_bytes=self._all(seen.before_bytes))
        if seen.unmeasured:
            return replace(row, status=UNMEASURED, reason=seen.unmeasured, before_bytes=None)
        row = replace(
            row,
            peak_bytes=self._all(seen.peak_bytes),
            reserved_bytes=seen.reserved_bytes,
            components=self._components(case, seen, how),
        )
        return row if refusal or self.simulated else self._timed(row, case)

    def _seen(self, case: Case) -> tuple[Seen, str]:
        """What the case needs, and how that is known."""
        if case.attention.attend is None:
            return by_model(case, self.primed.backend.kinds), "by the model"
        if not self.simulated:
            if case.attention.name not in self._met:  # what it imports may hold tensors of its own
                self._met.add(case.attention.name)
                observe(case.at(min(case.N, PERIOD)), self.primed)
            return observe(case, self.primed), "measured"
        if allocations(case, self._short) > MOST:
            return by_growth(case, self._short), "by growth"
        return observe(case, self.primed), _EACH

    def _short(self, case: Case) -> Seen:
        """A short length, which several longer ones ask for."""
        key = (case.attention.name, case.d, case.N, case.causal)
        if key not in self._known:
            self._known[key] = replace(self._on_endless(case), alive={})
        return self._known[key]

    def _on_endless(self, case: Case) -> Seen:
        if self.profile is None:
            return observe(case, self.primed)
        if self._endless is None:
            from ..backends.simulated import Simulated

            self._endless = PrimedBackend(
                Simulated(replace(self.profile, memory_bytes=_ENDLESS)), 0
            )
        return observe(case, self._endless)

    def _refusal(self, seen: Seen, how: str) -> str:
        """Why it does not fit, or nothing."""
        if seen.out_of_memory or how in (_EACH, "measured"):
            return seen.out_of_memory
        needed = self._all(seen.peak_bytes)
        if self.profile is None or needed is None or needed <= self.profile.memory_bytes:
            return ""
        return f"needs {needed - self.profile.memory_bytes:,} B more than there are, {how}"

    def _components(self, case: Case, seen: Seen, how: str) -> tuple[Component, ...]:
        alive = seen.alive
        if self._tracing and how == "measured" and seen.peak_bytes is not None:
            alive = observe(case, self.primed, trace=True).alive
        if not any(alive.values()):
            return ()
        symbols = case.shape.symbols
        return decompose(
            {stage: [placed(one, symbols) for one in made] for stage, made in alive.items()},
            peak_bytes=self._all(seen.peak_bytes),
            workspace_bytes=self.primed.workspace_bytes,
        )

    def _timed(self, row: Row, case: Case) -> Row:
        if not self.primed.backend.computes or case.attention.attend is None:
            return row
        device = self.primed.backend.device
        forward_ms, backward_ms = mean_times(case, device, self._passes, self._warmup)
        return replace(row, forward_ms=forward_ms, backward_ms=backward_ms)

    def _all(self, nbytes: int | None) -> int | None:
        """With the workspaces, as the device has it."""
        return None if nbytes is None else nbytes + self.primed.workspace_bytes

    def _blank(self, case: Case, *, status: str = OK, by: str = "", reason: str = "") -> Row:
        return Row(
            case.attention.name,
            case.B,
            case.H,
            case.N,
            case.d,
            str(case.dtype).removeprefix("torch."),
            case.causal,
            case.backward,
            status,
            by,
            reason,
            workspace_bytes=self.primed.workspace_bytes,
        )
