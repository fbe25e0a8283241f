"""The torch that is installed, as far as the rules of the simulation and of closed forms go."""

from __future__ import annotations

from functools import cache
from typing import Final

from ..certified.certificate import Certificate, certificate_of, release
from ..errors import BackendUnavailable
from ..nulldevice import build
from ..torch_releases import NO_RULES

_REMEDY: Final = "run attnmem certify"


def commit() -> str:
    """Returns the commit that torch was built from; empty if the build does not say."""
    import torch

    return str(getattr(torch.version, "git_version", None) or "")


def certificate() -> Certificate | None:
    """Returns the certificate of the installed torch, with the operators that it changed."""
    import torch

    return _certificate_of(str(torch.__version__), commit())


@cache
def _certificate_of(version: str, commit: str) -> Certificate | None:
    return certificate_of(version, commit)


def missing_rules() -> str:
    """Returns ``no rules for torch 2.16.0; run attnmem certify``; "" if operators are certified.

    They are by a certificate, or one by one on the null device, as programs use them.
    """
    return "" if certificate() is not None or _has_null() else _missing()


def missing_forms() -> str:
    """Returns why no closed form with scratch holds for the installed torch; "" if each does."""
    found = certificate()
    if found is None:
        return _missing()
    changed = next(iter(found.refused), "")
    return f"{changed} changed in torch {found.torch}; attnmem certify" if changed else ""


def require_rules(refused: str, instead: str) -> None:
    """Checks that the rules of the installed torch are known.

    Raises:
        BackendUnavailable: they are not; ``derive cannot answer here: no rules …; use growth``.
    """
    if missing := missing_rules():
        raise BackendUnavailable(f"{refused} here: {missing}; {instead}")


def _missing() -> str:
    import torch

    version = str(torch.__version__)
    other = certificate_of(version, "")  # that of the release, by another commit
    named = f" (commit {commit()[:9]})" if other is not None else ""
    return f"{NO_RULES} {release(version)}{named}; {_REMEDY}"


def _has_null() -> bool:
    try:
        build.check()
    except BackendUnavailable:
        return False
    return True
