"""``attnmem.model``: the memory of a whole model on the backend of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import BudgetError
from ..measurement.measurement import Measurement
from ..models.model_memory import ModelMemory, ModelRun, recipe_of
from ..units import kind_of
from .backend_facts import BackendFacts


class ModelCalls(BackendFacts):
    """Measures models on the backend that ``_primed`` opens."""

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


def measurement_of(measured: object) -> Measurement:
    """Returns the measurement that ``check`` judges; of a model, that of its recipe.

    Raises:
        BudgetError: it is neither.
    """
    found = measured.measurement if isinstance(measured, ModelMemory) else measured
    if isinstance(found, Measurement):
        return found
    raise BudgetError(f"check takes the Measurement that measure returned; got {kind_of(measured)}")
