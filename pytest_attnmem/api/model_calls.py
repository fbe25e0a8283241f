"""``attnmem.model``: the memory of a whole model on the backend of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..models.model_memory import ModelMemory, ModelRun, recipe_of
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
