"""CUDA fuses the kernels of a script from its second call on."""

import torch


@torch.jit.script
def several(x):
    return (x * 2 + 1).exp()


@torch.jit.script
def single(x):
    return x.softmax(-1)


def test_a_script_that_is_called_again_is_refused(run):
    """One kernel has nothing to be fused with."""

    def once(script):
        script(torch.ones(4, 4, device="cuda"))

    assert run(lambda: once(several)).unmeasured is None
    assert run(lambda: once(several)).unmeasured.startswith(
        "TorchScript fuses the kernels of a script that is called again at "
    )
    for _ in range(2):
        assert run(lambda: once(single)).unmeasured is None
