"""The data and attributes of tensors in a program's state."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..errors import ProgramRefused

if TYPE_CHECKING:
    from .state_kinds import Items, Node

#: The most bytes of a device's tensors that are copied: more might not fit on it.
_MOST_OF_DEVICES: Final = 64 << 20

#: The dicts of a tensor's hooks.
_HOOKS: Final = ("_backward_hooks", "_post_accumulate_grad_hooks")


def read_tensor(found: Any) -> Items:
    """Returns the gradient of a tensor, and the attributes that the program gave it."""
    leaf = found.is_leaf or found.retains_grad
    hooks = [(name, found.__getattribute__(name)) for name in _HOOKS if hasattr(found, name)]
    return [("grad", found.grad if leaf else None), *hooks, *vars(found).items()]


def write_tensor(found: Any, items: Items) -> None:
    """Gives a tensor its gradient and its attributes.

    Hooks stand in a dict, which is put back itself. Attributes of another class than torch's are
    left, as the class may need them.
    """
    import torch

    values = {name: value for name, value in items if name not in _HOOKS}
    grad = values.pop("grad")
    if grad is not None or found.is_leaf:
        found.grad = grad
    own = vars(found)
    if type(found) in (torch.Tensor, torch.nn.Parameter):
        own.clear()
    own.update(values)


def keep_data(node: Node, room: dict[str, int]) -> None:
    """Keeps a copy of the tensor's data, if there is *room* on its device; else the version."""
    found = node.strong
    node.version = getattr(found, "_version", 0)
    with suppress(ProgramRefused, Exception):  # a tensor without data, as a sparse one
        device = found.device.type
        room[device] = room.get(device, _MOST_OF_DEVICES) - found.untyped_storage().nbytes()
        if room[device] >= 0:
            node.extra = found.detach().clone()


def make_tensor(node: Node, _: Items) -> Any:
    """Returns a tensor with the data of one that a run dropped."""
    import torch

    made = node.extra.detach().clone()
    return torch.nn.Parameter(made) if node.of is torch.nn.Parameter else made


def write_data(node: Node, found: Any) -> None:
    """Writes the data of a tensor back, if a run wrote to it.

    Writes through ``tensor.data`` change no version, so those of the CPU are written in any case.
    """
    copied = node.extra
    if copied is None or (found._version == node.version and found.device.type != "cpu"):
        return
    try:
        if found.shape != copied.shape or found.dtype != copied.dtype:
            found.data = copied.clone()
        else:
            found.data.copy_(copied)
    except (ProgramRefused, RuntimeError):
        node.extra, node.strong = None, found  # it is lost
    else:
        node.version = found._version


def is_lost(node: Node) -> bool:
    """Returns True if a run wrote to a tensor whose data was not copied."""
    return node.extra is None and getattr(node.strong, "_version", 0) != node.version
