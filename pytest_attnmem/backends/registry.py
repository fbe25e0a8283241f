"""Backends: how memory is observed on a kind of device. This module itself stays free of torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType

from ..errors import BackendUnavailable
from ..measurement.protocol import Backend
from ..profiles import DeviceProfile
from ..suggestion import did_you_mean
from ..units import shown

#: Opens a backend: takes what stood after the colon, or "". Raises BackendUnavailable.
Opener = Callable[[str], Backend]


def _in_module(module: str, **options: object) -> Opener:
    def opener(argument: str) -> Backend:
        found = importlib.import_module(module, __package__)
        backend: Backend = found.open_backend(argument, **options)
        return backend

    return opener


BACKENDS: Mapping[str, Opener] = MappingProxyType(
    {name: _in_module(f".{name}") for name in ("cuda", "accelerator", "cpu", "null", "simulated")}
)


def with_profiles(profiles: Sequence[DeviceProfile]) -> Mapping[str, Opener]:
    """The backend that stands for any device, and for these too."""
    return {"simulated": _in_module(".simulated", profiles=profiles)}


#: The order in which ``auto`` tries: the device that the code would run on.
AUTO = ("null", "cuda", "accelerator", "cpu")


def starts_again(backend: Backend) -> str:
    """Returns why a program that went on all the same must run once more; "" where it need not."""
    reason: str = getattr(backend, "starts_again", "")
    return reason


def lookahead(backend: Backend) -> AbstractContextManager[None] | None:
    """Returns a world without limits, where the end of a program may change what came before.

    ``None`` on a backend to which that never happens, and where it happened.
    """
    offered: Callable[[], AbstractContextManager[None] | None]
    offered = getattr(backend, "lookahead", lambda: None)
    return offered()


def open_backend(name: str, openers: Mapping[str, Opener] = BACKENDS) -> Backend:
    """The backend that ``name`` asks for: ``cpu``, ``cuda``, ``cuda:1``, or ``auto``.

    A backend asked for by name never falls back to another.

    Raises:
        BackendUnavailable: there is none of that name, or it cannot work here; the text says why.
    """
    for candidate in AUTO if name == "auto" else (name,):
        try:
            return _open(candidate, openers)
        except BackendUnavailable as error:
            refusal = error
        except Exception as error:  # a fault, which must not make auto pass over a device
            raise BackendUnavailable(
                f"backend {shown(candidate)} cannot be opened: {shown(error, 200)}"
            ) from error
    raise refusal


def _open(name: str, openers: Mapping[str, Opener]) -> Backend:
    check_name(name, openers)
    kind, _, argument = name.partition(":")
    with _needing_torch(name):
        backend = openers[kind](argument)
    members = (member for member in vars(Backend) if not member.startswith("_"))
    if lacking := [member for member in members if not hasattr(backend, member)]:
        raise TypeError(f"{shown(backend)} is no backend, it lacks {', '.join(lacking)}")
    return backend


def registered(found: object) -> Mapping[str, Opener]:
    """What a plugin returned for ``pytest_attnmem_register_backends``, once seen to be openers.

    Raises:
        BackendUnavailable: they are none.
    """
    if isinstance(found, Mapping) and all(
        isinstance(name, str) and name not in ("", "auto") and ":" not in name and callable(opener)
        for name, opener in found.items()
    ):
        return found
    raise BackendUnavailable(
        f"pytest_attnmem_register_backends returned {shown(found)}; expected a dict of names and"
        " callables, {'mine': opener}, where an opener takes what stands after the colon"
    )


def check_name(name: str, openers: Mapping[str, Opener] = BACKENDS) -> None:
    """See that ``name`` asks for a backend that exists, without opening it.

    Raises:
        BackendUnavailable: there is no such backend.
    """
    kind = name.partition(":")[0]
    if kind not in (*openers, "auto"):
        known = ["auto", *openers]
        hint = "; did you mean 'cuda'?" if kind == "gpu" else did_you_mean(kind, known, 0.7)
        raise BackendUnavailable(
            f"unknown backend {shown(name)}; expected one of {', '.join(known)}{hint}"
        )


def check_device(name: str, openers: Mapping[str, Opener] = BACKENDS) -> None:
    """Check that the device of ``cuda`` or ``accelerator`` exists, without using it.

    Raises:
        BackendUnavailable: the device does not exist; the text says why.
    """
    kind, _, argument = name.partition(":")
    if kind in ("cuda", "accelerator") and openers[kind] is BACKENDS[kind]:
        with _needing_torch(name):
            importlib.import_module(f".{kind}", __package__).check(argument)


@contextmanager
def _needing_torch(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise BackendUnavailable(
            f"backend {shown(name)} needs torch, which is not installed; pip install torch"
        ) from error


def backend_of(device: str, running: str = "auto") -> str:
    """The backend that measures ``device``, as torch names it: ``cuda:1`` → ``cuda:1``.

    Where ``running`` stands for CUDA devices, that one: ``null`` and ``cuda:1`` → ``null:1``.
    """
    kind, _, index = device.partition(":")
    stand_in = running.partition(":")[0]
    if kind == "cuda" and stand_in == "null":
        return f"null:{index}" if index else running
    if device in ("cuda", "cuda:0") and stand_in == "simulated":
        return running
    return device if kind in ("cuda", "cpu") else f"accelerator:{device}"
