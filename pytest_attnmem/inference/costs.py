"""Costs that follow from the sizes of a model alone."""

from __future__ import annotations

import math

from .numbers import Number, exact, whole

#: FLOPs of a softmax for each score, about: maximum, difference, exponential, sum and quotient.
SOFTMAX_FLOPS = 5


def calculate_model_memory(num_params: Number, dtype_bytes: Number = 2) -> int:
    """Returns the bytes of a model's weights; ``dtype_bytes`` is 2 in fp16, 0.5 in int4.

    Raises:
        BudgetError: a number is not a positive number.
    """
    return math.ceil(whole("num_params", num_params) * exact("dtype_bytes", dtype_bytes))
