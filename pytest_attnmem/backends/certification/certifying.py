"""Compares all recipes with the rules, on one null process a device: the work of ``certify``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Final

from ...certified.certificate import Certificate, packaged, release
from ...errors import BackendUnavailable
from ...nulldevice.torch_build import TorchBuild, read_version
from ...profiles import find_profile
from ...torch_releases import Version, minor_version, rules_version
from ...units import excerpt
from .null_process import NullProcess
from .recipes import digest, lines_by_operator

#: The characters of each difference in a certificate, of which an old torch may have hundreds.
_FEW_SHOWN: Final = 300
_MANY_SHOWN: Final = 60
_FEW: Final = 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the calls of operators ended on some devices."""

    operators: tuple[str, ...]
    devices: tuple[str, ...]
    calls: int
    """The calls that were equal."""
    unplanned: int
    """The calls that no rule plans."""
    refused: dict[str, str]
    """Operator → its first call that differs."""


def matching(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the operators of these names, ``aten.mm.default``, ``aten.mm`` or ``mm``; else all.

    Raises:
        BackendUnavailable: there are no calls of a name.
    """
    known = tuple(lines_by_operator())
    found: dict[str, None] = {}
    for name in names:
        full = name if name.startswith("aten.") else f"aten.{name}"
        of_name = [op for op in known if full in (op, op.rpartition(".")[0])]
        if not of_name:
            raise BackendUnavailable(f"no recorded call is of operator {name!r}")
        found |= dict.fromkeys(of_name)
    return tuple(found) or known


def compare(
    operators: Sequence[str],
    devices: Sequence[str],
    rules: Version,
    show: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Runs the calls of operators on null devices, and compares them with the rules of a version.

    Raises:
        BackendUnavailable: the null device does not run here, or a device has no profile.
    """
    profiles = [find_profile(device) for device in devices]
    done = [0] * len(profiles)

    def on_device(place: int) -> list[tuple[str, int, int, str]]:
        process, answers = NullProcess(profiles[place], rules), []
        for op in operators:
            found = process.ask(op)
            answers.append((op, found["equal"], found["unplanned"], found["differs"]))
            done[place] += 1
            show(f"{sum(done)} of {len(operators) * len(profiles)}: {op} on {devices[place]}")
        process.end()
        return answers

    with ThreadPoolExecutor(min(len(profiles), os.cpu_count() or 1)) as pool:
        answers = [
            one for of_device in pool.map(on_device, range(len(profiles))) for one in of_device
        ]
    refused: dict[str, str] = {}
    for op, _, _, differs in answers:
        if differs:
            refused.setdefault(op, differs)
    return Comparison(
        tuple(operators), tuple(devices), sum(one[1] for one in answers),
        sum(one[2] for one in answers), dict(sorted(refused.items())),
    )  # fmt: skip


def certificate_of(found: Comparison, torch: TorchBuild, rules: Version) -> Certificate:
    """Returns the certificate of a torch whose operators were compared with the rules."""
    room = _FEW_SHOWN if len(found.refused) <= _FEW else _MANY_SHOWN
    base = rules_version("{}.{}.0".format(*rules))
    return Certificate(
        torch=release(torch.version),
        commit=read_version(torch.folder).commit,
        base=".".join(map(str, base)),
        recipes=digest(),
        operators=len(found.operators),
        calls=found.calls + found.unplanned,
        devices=found.devices,
        made=date.today().isoformat(),
        cudnn=torch.cudnn_name,
        cuda=torch.cuda,
        refused={op: excerpt(text, room) for op, text in found.refused.items()},
    )


def previously_refused(before: Certificate | None, torch: str) -> frozenset[str]:
    """Returns the operators refused before: on this torch, or else on the newest before it."""
    if before is None:
        older = [one for one in packaged() if minor_version(one.torch) <= minor_version(torch)]
        before = older[-1] if older else None
    return frozenset(before.refused if before else ())
