"""Reads pickles of plain values; a pickle that names a class or a function is refused.

Such a pickle could run any code. Those of ``torch.cuda.memory._snapshot`` have plain values only.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, NoReturn

from ..contents import contents
from ..errors import AttnMemError
from ..units import excerpt


class _Plain(pickle.Unpickler):
    """An unpickler of dicts, lists, tuples, texts, numbers, booleans and None."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(
            f"it names {excerpt(f'{module}.{name}')}, and could run code; a snapshot of PyTorch"
            " has plain values only"
        )


def load_plain(path: Path) -> Any:
    """Returns the value in a pickle file; runs no code of it.

    Raises:
        AttnMemError: the file cannot be read, is not a pickle, or names a class.
    """
    try:
        return _Plain(io.BytesIO(contents(path))).load()
    except OSError as error:
        raise AttnMemError(f"cannot read {path}: {error.strerror or error}") from error
    except pickle.UnpicklingError as error:
        raise AttnMemError(f"cannot read {path}: {excerpt(str(error), 160)}") from error
    except Exception as error:  # any, from damaged pickles: EOFError, KeyError, MemoryError, …
        why = excerpt(f"{type(error).__name__} {error}".strip(), 80)
        raise AttnMemError(f"cannot read {path}: it is not a pickle ({why})") from error
