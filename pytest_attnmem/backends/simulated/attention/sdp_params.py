"""The facts from which PyTorch selects an attention backend, as plain data. No torch."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from ....torch_releases import Version

FLASH = "flash"
EFFICIENT = "efficient"
MATH = "math"
CUDNN = "cudnn"
OVERRIDEABLE = "overrideable"

#: ``at::SDPBackend``, by its number (``aten/src/ATen/SDPBackend.h``).
BACKENDS = (MATH, FLASH, EFFICIENT, CUDNN, OVERRIDEABLE)
#: The default order of backends, and the order on devices where cuDNN is faster.
ORDER = (FLASH, EFFICIENT, MATH, CUDNN, OVERRIDEABLE)
CUDNN_FIRST = (CUDNN, FLASH, EFFICIENT, MATH, OVERRIDEABLE)


@dataclass(frozen=True, slots=True)
class Described:
    """A tensor described by shape, strides, dtype and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str  # "float16"
    offset: int = 0
    requires_grad: bool = False
    nested: bool = False

    def batched(self) -> Described:
        """Returns the tensor with a batch of one, as ``unsqueeze(0)`` makes it below autograd."""
        strides = (self.shape[0] * self.strides[0], *self.strides)
        return replace(self, shape=(1, *self.shape), strides=strides, requires_grad=False)


@dataclass(frozen=True, slots=True)
class Switches:
    """A program's settings: ``torch.backends.cuda``, ``sdpa_kernel``, determinism, grad mode."""

    flash: bool = True
    efficient: bool = True
    math: bool = True
    cudnn: bool = True
    order: tuple[str, ...] = ORDER
    deterministic: bool = False  # not with ``warn_only``
    grad: bool = True

    def allows(self, backend: str) -> bool:
        """Returns True if that backend is switched on."""
        return backend in {field.name for field in fields(self)} and bool(getattr(self, backend))


@dataclass(frozen=True, slots=True)
class SdpParams:
    """A call of ``scaled_dot_product_attention`` on a device."""

    query: Described
    key: Described
    value: Described
    capability: tuple[int, int]
    version: Version  # of PyTorch
    attn_mask: Described | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False
    switches: Switches = field(default_factory=Switches)
    prefers_cudnn: bool = True  # False if ``TORCH_CUDNN_SDPA_DEPRIORITIZED`` is set

    @property
    def inputs(self) -> tuple[Described, Described, Described]:
        """Returns query, key and value."""
        return self.query, self.key, self.value

    @property
    def trains(self) -> bool:
        """Returns True if query, key or value needs a gradient."""
        return self.switches.grad and any(tensor.requires_grad for tensor in self.inputs)

    @property
    def nested(self) -> bool:
        """Returns True if query, key or value is a nested tensor."""
        return any(tensor.nested for tensor in self.inputs)
