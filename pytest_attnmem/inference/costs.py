"""The costs that a model's sizes give."""

from __future__ import annotations

import math

from .numbers import Number, positive, whole

#: Operations of a softmax for each score, about: maximum, difference, exponential, sum, quotient.
SOFTMAX_FLOPS = 5


def calculate_model_memory(num_params: Number, dtype_bytes: Number = 2) -> int:
    """Bytes of a model's weights; ``dtype_bytes`` is 2 in fp16, 1 in int8, 0.5 in int4.

    Raises:
        BudgetError: a number is none, not positive or not finite.
    """
    return math.ceil(whole("num_params", num_params) * positive("dtype_bytes", dtype_bytes))
