"""Recorded calls of operators, as ``attnmem certify`` has them, and their text.

``certification/recipes.py`` says how tensors are written, and ``null_calls.py`` a trace.
"""

from recipes import of_row

from pytest_attnmem.backends.certification import described


def arguments(row, device):
    """Returns the arguments of a call on the device, with data if it has a ``period``."""
    args, kwargs = described.arguments(of_row(row), device)
    return [*args], kwargs


def text(row):
    return str(of_row(row))
