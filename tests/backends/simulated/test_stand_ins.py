"""A call that returns a tensor of its caller's returns the same object."""

import pytest
import torch
from torch.nn import functional

from pytest_attnmem.backends.primed_backend import PrimedBackend

SAME = {
    "add_": lambda x: x.add_(1),
    "to": lambda x: x.to("cpu", torch.float32),
    "contiguous": lambda x: x.contiguous(),
    "requires_grad_": lambda x: x.requires_grad_(),
    "out": lambda x: torch.add(x, 1, out=x),
    "as_tensor": torch.as_tensor,
    "relu": lambda x: functional.relu(x, inplace=True),
    "share_memory_": lambda x: x.share_memory_(),
}
OTHERS = {
    "add": lambda x: x.add(1),
    "detach": lambda x: x.detach(),
    "view": lambda x: x.view(-1),
    "cuda": lambda x: x.cuda(),
}


@pytest.mark.parametrize("call", [*SAME, *OTHERS])
def test_a_result_is_the_tensor_of_a_fixture_where_pytorchs_is(kept_session, call):
    x = torch.ones(3)

    def program():
        torch.empty(0, device="cuda")  # names the device, so x is on the host
        return (SAME | OTHERS)[call](x) is x

    assert PrimedBackend(kept_session[0], 0).run(program)[1] == (call in SAME)


def test_a_fixtures_tensor_counts_its_versions_on(kept_session):
    x = torch.ones(3).mul_(2)
    known = x._version

    def program():
        torch.empty(0, device="cuda")
        x.add_(1)
        return x._version

    assert PrimedBackend(kept_session[0], 0).run(program)[1] == known + 1
