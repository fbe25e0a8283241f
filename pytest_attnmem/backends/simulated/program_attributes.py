"""The attributes that a program sets of its tensors, which copies and files of them have too."""

from __future__ import annotations

from typing import Any, Final

#: The attribute of a fake with the tensor from outside that it stands for.
STANDS_FOR: Final = "_attnmem_stands_for"
#: The attributes that simulated tensors need; the class has others of FakeTensor's.
_OWN: Final = frozenset(
    {
        *("fake_mode", "_fake_device", "constant", "_is_param", "_host_data"),
        *("is_in_shared_memory", STANDS_FOR),
    }
)


def without_own(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns keywords without those of a simulated tensor, as in ``type(x)(y, **x.__dict__)``."""
    return {name: value for name, value in kwargs.items() if name not in _OWN}


def attributes(tensor: Any) -> dict[str, Any]:
    """Returns the attributes of a simulated tensor by name."""
    known = vars(type(tensor))
    real: Any = vars(tensor).get(STANDS_FOR, _nothing)()
    found = vars(tensor) if real is None else {**vars(real), **vars(tensor)}
    return {name: value for name, value in found.items() if not (name in known or name in _OWN)}


def _nothing() -> None:
    """Returns None, as a reference to a tensor that is gone."""
