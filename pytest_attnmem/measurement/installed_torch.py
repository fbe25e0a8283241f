"""The torch that is installed, as far as the rules of the simulation and of closed forms go.

No other module uses the private list of operators (written against torch 2.13 to 2.15).
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from ..errors import BackendUnavailable
from ..torch_releases import no_rules

#: The files, beside the schemas, from which fake tensors take the sizes of what operators allocate.
_META: Final = ("_meta_registrations.py", "_decomp/decompositions.py")


def missing_rules() -> str:
    """Returns ``no rules for torch 2.16; known: 2.13 to 2.15``, or "" if the rules are known.

    A comparison of texts for a release; 40 ms for another build of a known version.
    """
    import torch

    commit = getattr(torch.version, "git_version", None)
    return no_rules(str(torch.__version__), commit, fingerprint)


def require_rules(refused: str, instead: str) -> None:
    """Checks that the rules of the installed torch are known.

    Raises:
        BackendUnavailable: they are not; ``derive cannot answer here: no rules …; use growth``.
    """
    if missing := missing_rules():
        raise BackendUnavailable(f"{refused} here: {missing}; {instead}")


def fingerprint() -> str:
    """Returns a digest of what the rules rest on: operators' schemas, sizes and decompositions.

    It is equal for the CPU and the CUDA builds of a release; empty if a part of it is missing.
    """
    import torch

    try:
        schemas = torch._C._jit_get_all_schemas()
        texts = sorted(str(schema) for schema in schemas if schema.name.startswith("aten::"))
        files = [(Path(torch.__file__).parent / name).read_bytes() for name in _META]
    except (AttributeError, OSError):
        return ""
    return sha256(b"".join(["\n".join(texts).encode(), *files])).hexdigest()
