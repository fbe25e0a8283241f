"""What the null device can do without, but some programs cannot: cuDNN, NVRTC, Triton.

Their versions are those that torch asks for in its metadata.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from .torch_build import TorchBuild

#: A part → the packages of NVIDIA's that it needs, as torch names them without ``nvidia-`` and
#: ``-cu12``. cuDNN's planner compiles with NVRTC and asks cuBLASLt.
_NVIDIA: Final = MappingProxyType(
    {"cudnn": ("cudnn", "cublas", "cuda-nvrtc"), "nvrtc": ("cuda-nvrtc",), "triton": ()}
)
#: A package → its extra of ``cuda-toolkit``, which torch asks for since 2.11.
_TOOLKIT: Final = MappingProxyType({"cublas": "cublas", "cuda-nvrtc": "nvrtc"})
#: The first cuDNN that plans without a GPU.
PLANS: Final = 90800
#: A part → what works with it.
USES: Final = MappingProxyType(
    {
        "cudnn": "convolutions and attention by cuDNN",
        "nvrtc": "kernels that a program compiles from CUDA's C++",
        "triton": "kernels of Triton's and torch.compile",
    }
)
NAMES: Final = (*USES,)
#: The library of a part of NVIDIA's, and the beginning of its functions' names.
_LIBRARIES: Final = MappingProxyType({"cudnn": "libcudnn.so.", "nvrtc": "libnvrtc.so."})


def requirements(torch: TorchBuild, part: str) -> list[str]:
    """Returns what to install for a part, such as ``nvidia-cudnn-cu13==9.20.0.48``."""
    from packaging.requirements import Requirement

    found = []
    for text in torch.requires:
        wanted = Requirement(text)
        name = wanted.name.removeprefix("nvidia-").removesuffix(f"-cu{torch.major}")
        extras = sorted({_TOOLKIT.get(one, "") for one in _NVIDIA[part]} & wanted.extras)
        if wanted.name == part or name in _NVIDIA[part]:
            found.append(f"{wanted.name}{wanted.specifier}")
        elif wanted.name == "cuda-toolkit" and extras:
            found.append(f"{wanted.name}[{','.join(extras)}]{wanted.specifier}")
    return found


def unplannable(torch: TorchBuild) -> str:
    """Returns why the cuDNN that this torch is made for cannot be of use; empty if it can."""
    if torch.cudnn >= PLANS:
        return ""
    version = f"{torch.cudnn // 10000}.{torch.cudnn // 100 % 100}"
    return (
        f"torch {torch.version} is made for cuDNN {version}, which cannot plan without a GPU; cuDNN"
        " 9.8 and newer can"
    )


def headers(major: int) -> str:
    """Returns the package with CUDA's headers, which a checkout compiles the runtime with."""
    return f"nvidia-cuda-runtime{'' if major >= 13 else f'-cu{major}'}=={major}.*"


def lacking(torch: TorchBuild) -> Iterator[str]:
    """Yields the parts that are not there."""
    for part in NAMES:
        if part == "triton":
            beside = (torch.folder.parent / "triton").is_dir()
            there = beside or importlib.util.find_spec("triton") is not None
        else:
            name = f"*/lib/{_LIBRARIES[part]}*"
            there = any(path for root in torch.packages for path in root.glob(name))
        if not there:
            yield part


def part_of(function: str) -> str:
    """Returns the part that a function such as ``cudnnCreate`` belongs to; empty if none."""
    return next((part for part in _LIBRARIES if function.startswith(part)), "")
