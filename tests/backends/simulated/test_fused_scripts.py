"""CUDA fuses the kernels of a script from its second call on."""

import pytest
import torch


def several(x):
    return (x * 2 + 1).exp()


def single(x):
    return x.softmax(-1)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_script_that_is_called_again_is_refused(run):
    """One kernel has nothing to be fused with."""

    fused, alone = torch.jit.script(several), torch.jit.script(single)

    def once(script):
        script(torch.ones(4, 4, device="cuda"))

    assert run(lambda: once(fused)).unmeasured is None
    refusal = run(lambda: once(fused)).unmeasured
    assert refusal.startswith("TorchScript fuses the kernels of a script that is called again at ")
    assert refusal.endswith(
        ", which cannot be simulated; set PYTORCH_JIT=0, which runs scripts as Python, or use"
        " backend='null' or 'cuda'"
    )
    for _ in range(2):
        assert run(lambda: once(alone)).unmeasured is None
