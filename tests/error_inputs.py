"""The calls of ``op_db`` that PyTorch says are wrong, on a device and on the simulated device.

``error_inputs`` of an operator yields them: arguments of sizes, dtypes and numbers that it refuses.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from opinfo_samples import database
from recordings import read
from replays import device

from pytest_attnmem.errors import AttnMemError, ProgramRefused

ON = "A100-80GB"
#: What can become of a call that raises on a device, in the order of the table.
KINDS = ("raises the same", "raises the same type", "raises another type", "refused", "runs")


def operators() -> dict[str, Any]:
    """Returns the operators with such calls by name."""
    found = {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in database()}
    return {name: op for name, op in found.items() if op.error_inputs_func is not None}


def told(op: Any, number: int, on: str = "cuda") -> str | None:
    """Returns the type and the first line of the error of a call, or "" if it runs.

    It is None if there is no call of that number.
    """
    try:
        made = next(islice(op.error_inputs(on), number, None), None)
        if made is None:
            return None
        sample = made.sample_input
        op(sample.input, *sample.args, **sample.kwargs)
    except AttnMemError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ""


def outcomes(each: Callable[[str], bool] = bool) -> Iterator[tuple[str, str, str]]:
    """Yields the name, the kind and the words of each recorded call, of the operators chosen."""
    recorded = read("error-inputs")["errors"]
    simulated = device(ON)
    for name, op in operators().items():
        for number, expected in enumerate(recorded.get(name, ()) if each(name) else ()):
            if expected:
                said = _simulated(simulated, op, number)
                yield f"{name} {number}", _kind(said, expected), said


def counted() -> dict[str, int]:
    """Returns the number of calls by what becomes of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counts = Counter(kind for _, kind, _ in outcomes())
    return {kind: counts[kind] for kind in KINDS}


def _kind(said: str, expected: str) -> str:
    if said in ("refused", "runs"):
        return said
    if said == expected:
        return KINDS[0]
    return KINDS[1 if said.partition(":")[0] == expected.partition(":")[0] else 2]


def _simulated(simulated: Any, op: Any, number: int) -> str:
    simulated.restart()
    problem = None
    try:
        with simulated.world():
            gauge = simulated.gauge()
            gauge.start()
            try:
                said = told(op, number)
            finally:
                problem = gauge.stop().problem
    except (AttnMemError, ProgramRefused):
        return "refused"
    return said or ("refused" if problem else "runs")
