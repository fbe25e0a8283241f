"""A branch that a program takes by a value is the one that a device takes."""

import pytest

pytestmark = pytest.mark.usefixtures("simulation_imported")

MASKED = """
def masked(q, k, v, mask):
    if torch.all(mask == 1):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    N = q.shape[-2]
    full = torch.ones(N, N, dtype=torch.bool, device=q.device).tril()
    full = full & mask[:, None, None, :].bool()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=full)

@pytest.mark.memory_budget("O(N*d)", backend="simulated")
@pytest.mark.parametrize("N", [4096])
def test_linear(qkv, N):
    q, k, v = qkv(B=2, H=8, N=N, d=64)
    masked(q, k, v, torch.ones(2, N, dtype=torch.long, device=q.device))
"""


def test_the_branch_is_taken_that_a_device_takes_by_its_values(suite):
    suite.tests(MASKED)
    assert suite.run().outcome("test_linear[4096]") == "within"
    suite.tests(MASKED.replace("torch.ones(2, N, dtype", "torch.zeros(2, N, dtype"))
    assert suite.run().outcome("test_linear[4096]").startswith("over: peak grows as ")
