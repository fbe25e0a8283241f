"""The table of backends, and how one is found by its name. This module imports no torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..errors import BackendUnavailable, DeviceMissing, again
from ..measurement.installed_torch import require_rules
from ..measurement.protocol import BackendProtocol
from ..profiles import meant
from ..suggestion import did_you_mean
from ..units import shown

if TYPE_CHECKING:
    from ..profiles import DeviceProfile

#: Opens a backend: takes the part of its name after the colon, or "". Raises BackendUnavailable.
Opener = Callable[[str], BackendProtocol]


class Session(Protocol):
    """A session that shows a simulated device to its programs."""

    @property
    def name(self) -> str:
        """Returns the name of the backend whose device it is."""

    def openers(self, openers: Mapping[str, Opener]) -> Mapping[str, Opener]:
        """Returns openers of backends that know the session's device."""


class BuiltIn(NamedTuple):
    """A backend of this package: the module of its name in this folder, with ``open_backend``."""

    name: str
    automatic: bool = True
    """True if ``auto`` tries it."""
    checks_device: bool = False
    """True if its module has ``check``, which finds out whether a device exists."""


#: Every backend of this package, in the order in which ``auto`` tries them. Under the null device
#: ``cuda`` and ``accelerator`` refuse.
BUILT_IN = (
    BuiltIn("cuda", checks_device=True),
    BuiltIn("accelerator", checks_device=True),
    BuiltIn("null"),
    BuiltIn("cpu"),
    BuiltIn("simulated", automatic=False),
)
#: The attribute of ``torch.library`` with the session that shows a simulated device.
SHOWN = "_attnmem_simulated"
#: The order in which ``auto`` tries: the device that the code would run on.
AUTO = tuple(built_in.name for built_in in BUILT_IN if built_in.automatic)
#: Kinds of backend that take the number of a device, where a user may write its name.
_NUMBERED = ("cuda", "gpu")
#: The backends that take the name of a device.
_STAND_INS = ("null", "simulated")
#: The members that every backend has.
_MEMBERS = (
    *("name", "device", "computes", "kinds", "symbols", "prime", "gauge", "forget", "tracer"),
    *("empty_cache", "out_of_memory"),
)


def _in_module(module: str, **options: object) -> Opener:
    def opener(argument: str) -> BackendProtocol:
        found = importlib.import_module(module, __package__)
        backend: BackendProtocol = found.open_backend(argument, **options)
        return backend

    return opener


def _simulated(profiles: Sequence[DeviceProfile], without_rules: bool) -> Opener:
    opener = _in_module(".simulated", profiles=profiles)

    def ruled(argument: str) -> BackendProtocol:
        # Before the import: another torch may lack the private APIs that the simulation imports.
        if not without_rules:
            instead = "'cpu', 'cuda' and 'null' measure on every torch"
            require_rules("backend 'simulated' cannot measure", instead)
        return opener(argument)

    return ruled


BACKENDS: Mapping[str, Opener] = MappingProxyType(
    {built_in.name: _in_module(f".{built_in.name}") for built_in in BUILT_IN}
    | {"simulated": _simulated((), without_rules=False)}
)


def with_profiles(
    profiles: Sequence[DeviceProfile] = (), *, without_rules: bool = False
) -> Mapping[str, Opener]:
    """Returns the backend that simulates a device, with ``profiles`` as further devices.

    On a torch whose rules are unknown it refuses to open; ``without_rules``, it opens and runs
    programs, and measures nothing.
    """
    return {"simulated": _simulated(profiles, without_rules)}


def starts_again(backend: BackendProtocol) -> str:
    """Returns why a program that caught this error must run again; "" where it need not.

    A backend that lacks the member never has programs run again.
    """
    reason: str = getattr(backend, "starts_again", "")
    return reason


def device_naming(backend: BackendProtocol) -> Callable[[], None] | None:
    """Returns what tells the backend that the next program names the device.

    ``None`` where that makes no difference, and on a backend that lacks the member.
    """
    return getattr(backend, "name_device", None)


def lookahead(backend: BackendProtocol) -> AbstractContextManager[None] | None:
    """Returns a context without limits, for a device that later code may still change.

    ``None`` if no later code can, and on a backend that lacks the member.
    """
    offered: Callable[[], AbstractContextManager[None] | None]
    offered = getattr(backend, "lookahead", lambda: None)
    return offered()


def restart(backend: BackendProtocol) -> None:
    """Begins a program, on an empty device if it is simulated."""
    begin: Callable[[], None] = getattr(backend, "restart", backend.forget)
    begin()


def larger_is_free(backend: BackendProtocol) -> bool:
    """Returns True if a run at larger sizes costs nothing more, because no tensor has memory."""
    free: bool = getattr(backend, "larger_is_free", not backend.computes)
    return free


def runs_kernels(backend: BackendProtocol) -> bool:
    """Returns True if the device runs kernels, so that their times mean something."""
    return not {"null", "simulated"}.intersection(backend.kinds)


def open_backend(name: str, openers: Mapping[str, Opener] = BACKENDS) -> BackendProtocol:
    """Returns the backend of this name: ``cpu``, ``cuda``, ``cuda:1``, or ``auto``.

    Only ``auto`` falls back to another backend.

    Raises:
        BackendUnavailable: no backend has the name, or it cannot work here; the text says why.
    """
    session: Session | None = getattr(sys.modules.get("torch.library"), SHOWN, None)
    if session is not None:
        openers = session.openers(openers)
    shown_device = () if session is None else (session.name,)
    for candidate in (*shown_device, *AUTO) if name == "auto" else (name,):
        try:
            return _open(candidate, openers)
        except BackendUnavailable as error:
            refusal = again(error)
        except Exception as error:  # a fault, which must not make auto pass over a device
            raise BackendUnavailable(
                f"backend {shown(candidate)} cannot be opened: {shown(error, 300)}"
            ) from error
    raise again(refusal)


def _open(name: str, openers: Mapping[str, Opener]) -> BackendProtocol:
    check_name(name, openers)
    kind, _, argument = name.partition(":")
    with _needing_torch(name):
        backend = openers[kind](argument)
    if missing := [member for member in _MEMBERS if not hasattr(backend, member)]:
        raise TypeError(
            f"{shown(backend)} is not a backend: missing {', '.join(missing)};"
            " pytest_attnmem.backends.Backend is a base class with defaults"
        )
    return backend


def registered(found: object) -> Mapping[str, Opener]:
    """Returns the value of the hook ``pytest_attnmem_register_backends``, a dict of openers.

    Raises:
        BackendUnavailable: it is something else.
    """
    if isinstance(found, Mapping) and all(
        isinstance(name, str) and name not in ("", "auto") and ":" not in name and callable(opener)
        for name, opener in found.items()
    ):
        return found
    raise BackendUnavailable(
        f"pytest_attnmem_register_backends returned {shown(found)}; expected a dict of names and"
        " callables, {'mine': opener}, where an opener takes the part of the name after the colon"
    )


def check_name(name: str, openers: Mapping[str, Opener] = BACKENDS) -> None:
    """Checks that a backend has this name, without opening it.

    Raises:
        BackendUnavailable: no backend has it.
    """
    kind, _, argument = name.partition(":")
    known = ["auto", *openers]
    device = argument if kind in _NUMBERED else "" if kind in known else name
    profiles = [] if device.isdecimal() else meant(device)
    if kind in known and not profiles:
        return
    hint = "; did you mean 'cuda'?" if kind == "gpu" else did_you_mean(kind, known, 0.7)
    if profiles:
        names = [f"{stand_in}:{profile}" for profile in profiles for stand_in in _STAND_INS]
        hint = f"; did you mean {' or '.join(names)}?"
    raise BackendUnavailable(
        f"unknown backend {shown(name)}; expected one of {', '.join(known)}{hint}"
    )


def check_device(name: str, openers: Mapping[str, Opener] = BACKENDS) -> None:
    """Checks that the device of ``cuda`` or ``accelerator`` exists, without using it.

    Raises:
        BackendUnavailable: the device does not exist; the text says why.
    """
    kind, _, argument = name.partition(":")
    checked = {built_in.name for built_in in BUILT_IN if built_in.checks_device}
    if kind in checked and openers[kind] is BACKENDS[kind]:
        with _needing_torch(name):
            importlib.import_module(f".{kind}", __package__).check(argument)


@contextmanager
def _needing_torch(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise DeviceMissing(
            f"backend {shown(name)} needs torch, which is not installed; pip install torch"
        ) from error


def backend_of(device: str, running: str = "auto") -> str:
    """Returns the backend that measures ``device``, as torch names it: ``cuda:1`` → ``cuda:1``.

    A ``running`` backend that stands for CUDA devices measures them: ``null`` and ``cuda:1`` →
    ``null:1``.
    """
    kind, _, index = device.partition(":")
    stand_in = running.partition(":")[0]
    if kind == "cuda" and stand_in == "null":
        return f"null:{index}" if index else running
    if device in ("cuda", "cuda:0") and stand_in == "simulated":
        return running
    return device if kind in ("cuda", "cpu") else f"accelerator:{device}"
