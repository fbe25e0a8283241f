"""One rank of a world whose other ranks do not run, on a device that moves nothing."""

from __future__ import annotations

from types import FrameType

#: The modules that compare models, buckets and shapes between ranks.
_CHECKING = (
    "torch.nn.parallel.",
    "torch.distributed.utils",
    "torch.distributed.fsdp.",
    "torch.distributed.tensor.",
)

#: The modules between the code that reads and this one.
_BETWEEN = ("pytest_attnmem.", "torch._ops", "torch._subclasses.", "torch.utils._pytree")


def checks_agreement(frame: FrameType | None) -> bool:
    """Returns True if PyTorch's own code reads, to check that the ranks hold the same model.

    Such checks pass by design where one rank runs.
    """
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(_BETWEEN):
            return name.startswith(_CHECKING)
        frame = frame.f_back
    return False
