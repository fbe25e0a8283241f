"""Deep copies of simulated tensors: views of one storage stay views of one."""

from __future__ import annotations

from typing import Any


def on_copied_storage(tensor: Any, memo: dict[int, Any]) -> Any:
    """Returns a copy that shares a whole copied storage with the copies of other views.

    See ``Tensor.__deepcopy__`` in torch/_tensor.py, which makes a number besides.
    """
    storage = tensor.untyped_storage()
    whole = memo.get(storage._cdata)
    if whole is None:
        count = storage.nbytes() // tensor.element_size()
        whole = memo[storage._cdata] = tensor.detach().as_strided((count,), (1,), 0).clone()
    number = tensor.new_empty([])
    copy = whole.view(tensor.dtype).as_strided(
        tensor.shape, tensor.stride(), tensor.storage_offset()
    )
    del number
    return copy.detach()
