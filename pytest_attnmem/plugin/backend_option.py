"""The option ``--attnmem-backend``: collects the backends and checks the name.

Every session imports this module, so heavy imports wait until they are needed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import AttnMemError
from .options import ini_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from ..backends.registry import Opener
    from ..profiles import DeviceProfile


def asked_backend(config: pytest.Config) -> str:
    """Returns the backend's name as given, before conftest files can add backends."""
    return str(_early(config, "backend") or "")


def shows_simulated_device(config: pytest.Config, backend: str) -> bool:
    """Returns True if the session's programs see a simulated device from its start."""
    return backend.partition(":")[0] == "simulated" and not _early(config, "disable")


def keeps_workspaces(config: pytest.Config) -> bool:
    """Returns True if the session leaves the workspaces of libraries out of its windows."""
    return _early(config, "workspaces") != "in"


def _early(config: pytest.Config, name: str) -> object:
    """Returns the value of an option; None if it cannot be read, which stops the session later."""
    given = getattr(config.known_args_namespace, f"attnmem_{name}", None)
    if given is None:
        with suppress(AttnMemError):
            return ini_value(config, name)
    return given


def offered_openers(config: pytest.Config, name: str) -> Mapping[str, Opener]:
    """Returns the backends that plugins add, and checks that *name* is a known backend.

    Raises:
        AttnMemError: a plugin adds something that is not a backend, or there is no backend *name*,
            or no profile of the device to simulate.
    """
    openers: dict[str, Opener] = {}
    profiles: Sequence[DeviceProfile] = ()
    if offered := config.hook.pytest_attnmem_device_profiles():
        from ..backends.registry import with_profiles
        from ..profiles import offered_profiles

        profiles = offered_profiles(offered)
        openers |= with_profiles(profiles, without_rules=True)
    for added in config.hook.pytest_attnmem_register_backends():
        from ..backends.registry import registered

        openers |= registered(added)
    if name == "auto":
        return openers
    from ..backends.registry import BACKENDS, check_name
    from ..profiles import find_profile

    kind, _, device = name.partition(":")
    try:
        check_name(name, {**BACKENDS, **openers})
        if kind == "simulated" and device:
            find_profile(device, profiles)
    except AttnMemError as error:
        given = config.getoption("attnmem_backend") is not None
        source = "--attnmem-backend" if given else "attnmem_backend"
        raise AttnMemError(f"{source}: {error}") from error
    return openers


def check_device(config: pytest.Config, openers: Mapping[str, Opener]) -> None:
    """Checks that the device of the command line's backend exists, before any test needs it.

    A backend in the ini file is not checked: machines without the device share the file.

    Raises:
        AttnMemError: the device is not available.
    """
    name = config.getoption("attnmem_backend")
    elsewhere = any("popen" not in spec for spec in config.getoption("tx", None) or ())
    unused = config.getoption("collectonly") or config.getoption("attnmem_disable")
    if not name or unused or elsewhere or hasattr(config, "workerinput"):
        return
    from ..backends import registry

    try:
        registry.check_device(name, {**registry.BACKENDS, **openers})
    except AttnMemError as error:
        raise AttnMemError(
            f"--attnmem-backend: {error}; simulated:H100 measures without a GPU"
        ) from error
