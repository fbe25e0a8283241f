"""The calls of operators that this process knows, for each kind of device.

Outside sessions, each measurement has a simulation of its own. Without data, what an operator makes
and allocates is a fact of torch, of the device's profile and of the call, and not of a simulation.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from .dtypes.refusals import Refusals
from .host_tensors.refusals import Hosts

if TYPE_CHECKING:
    from ...profiles import DeviceProfile
    from ...torch_releases import Version
    from .cached_op import CachedOp
    from .call_steps import AlikeCalls
    from .op_plan import Planner

#: The most calls of one device that are kept: a growth contract makes new ones at each size.
MOST: Final = 50_000
#: The most devices.
_MOST_DEVICES: Final = 16


class KnownCalls:
    """The known calls on one kind of device; simulations of it share them."""

    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.ops: dict[Any, CachedOp] = {}
        """The calls of operators, by all that their outcome depends on."""
        self.functions: dict[Any, AlikeCalls] = {}
        """The calls of PyTorch's functions, likewise."""
        self.refusals = Refusals()
        """The dtypes that its kernels refuse."""
        self.hosts = Hosts()
        """The tensors of the host that its operators refuse."""
        self.unshared_counts: tuple[int, ...] = ()
        """The reference counts of a gradient that only autograd holds; empty at first."""


class _Devices:
    """The known calls of this process, by kind of device."""

    def __init__(self) -> None:
        self._known: dict[Any, KnownCalls] = {}
        self._lock = Lock()

    def of(self, profile: DeviceProfile, *others: object) -> KnownCalls:
        facts = profile, *others
        with self._lock:
            found = self._known.get(facts)
            if found is None:
                if len(self._known) >= _MOST_DEVICES:
                    self._known.clear()
                found = self._known[facts] = KnownCalls(profile)
            return found


_DEVICES: Final = _Devices()


def known_calls(profile: DeviceProfile, version: Version, plan: Planner) -> KnownCalls:
    """Returns what is known of calls on such a device, whose allocations ``plan`` finds."""
    return _DEVICES.of(profile, version, plan)


def keep(known: dict[Any, Any], key: Any, call: Any) -> None:
    """Adds a call to those that are known."""
    if len(known) >= MOST:
        known.clear()
    known[key] = call
