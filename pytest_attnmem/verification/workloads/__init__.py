"""The workloads of ``attnmem verify``, by kind; each file ends in its own list."""

from .attention import ATTENTION
from .blocks import BLOCKS
from .compiled import COMPILED
from .convolutions import CONVOLUTIONS
from .optimizers import OPTIMIZERS
from .products import PRODUCTS
from .recomputation import RECOMPUTATION
from .scratch import SCRATCH

#: All of them, in the order in which they run: those that take long are last.
WORKLOADS = (
    *(*ATTENTION, *PRODUCTS, *BLOCKS, *OPTIMIZERS),
    *(*RECOMPUTATION, *SCRATCH, *CONVOLUTIONS, *COMPILED),
)
