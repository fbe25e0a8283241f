"""PyTorch's dispatcher by its private names, each of which stands in this file alone.

They are constants, so that they cost what they cost in PyTorch. A PyTorch that has one no more is
refused where a backend is opened, in one line that names it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

#: A mode of Python, to which each operator comes.
DispatchMode: TypeAlias = TorchDispatchMode
#: The context past such modes, and the one past the transforms of ``torch.func``.
past_modes: Final = no_dispatch
past_transforms: Final = temporarily_clear_interpreter_stack

#: The keys that this thread includes in each dispatch, and those that it excludes.
included_keys: Final = torch._C._dispatch_tls_local_include_set
excluded_keys: Final = torch._C._dispatch_tls_local_exclude_set
#: The context in which they are others, and the one that excludes some more.
dispatching: Final = torch._C._ForceDispatchKeyGuard
excluding: Final = torch._C._ExcludeDispatchKeyGuard

#: Takes the name of a key.
key_named: Final = torch._C._dispatch_key_parse
#: Returns the names of all operators, ``aten::add.Tensor``.
operator_names: Final = torch._C._dispatch_get_all_op_names
#: Takes such a name, and a key or its name.
has_kernel: Final = torch._C._dispatch_has_kernel_for_dispatch_key
#: Takes the name without overload of an operator of aten.
takes_numbers: Final = torch._C._should_allow_numbers_as_tensors
