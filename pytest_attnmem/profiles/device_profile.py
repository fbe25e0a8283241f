"""The facts of one kind of device that CUDA, the caching allocator and the roofline need."""

from __future__ import annotations

from dataclasses import dataclass, field

from .architectures import ARCHITECTURES, Architecture


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The facts of one kind of device. ``compute_capability`` must be in ``ARCHITECTURES``.

    ``memory_bytes`` is the memory that CUDA reports, which is less than the memory on the data
    sheet: error correction and the driver keep a share, which differs a little between boards and
    drivers.
    """

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    bus_bits: int
    """Width of the memory bus."""
    clock_mhz: int
    """The highest clock of the multiprocessors."""
    memory_clock_mhz: int
    """The memory clock that CUDA reports; memory sends twice per cycle of it. CUDA reports another
    clock for the memory of a Jetson: there it is the clock of the data sheet."""
    tensor_clock_mhz: int | None = None
    """The clock behind the vendor's tensor core figures; None if it is ``clock_mhz``."""
    half_rate: frozenset[str] = frozenset()
    """Dtypes that this device computes at half the rate of its architecture."""
    peer_access: bool = False
    """True if several of them in a machine read and write each other's memory, as over NVLink: a
    copy between two then takes no temporary memory (``cudaDeviceCanAccessPeer``)."""
    source: str = field(default="", compare=False, repr=False)
    """Where the facts were printed or published. Profiles with the same facts are equal."""

    @property
    def architecture(self) -> Architecture:
        """Returns the facts of its compute capability."""
        return ARCHITECTURES[self.compute_capability]

    @property
    def kernels(self) -> tuple[int, int] | None:
        """Returns the compute capability of PyTorch's kernels on it, see ``Architecture``."""
        return self.architecture.kernels
