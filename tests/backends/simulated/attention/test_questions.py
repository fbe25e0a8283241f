"""What programs ask about attention: the answers are those that the null device gave."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytest_attnmem.torch_releases import minor_version

CAN_USE = ("flash", "efficient", "cudnn")
GROUPED_EFFICIENT = minor_version(torch.__version__) >= (2, 14)


def asked(q, k=None, mask=None, dropout=0.0, causal=False, gqa=False):
    k = q if k is None else k
    params = torch.backends.cuda.SDPAParams(q, k, k, mask, dropout, causal, gqa)
    flags = torch.backends.cuda
    return [getattr(flags, f"can_use_{name}_attention")(params) for name in CAN_USE]


def made(*sizes, dtype=torch.half, device="cuda"):
    return torch.ones(*sizes, dtype=dtype, device=device)


CASES = {
    "half": (lambda: asked(made(1, 2, 8, 16)), [True, True, True]),
    "single": (lambda: asked(made(1, 2, 8, 16, dtype=torch.float)), [False, True, False]),
    "mask": (
        lambda: asked(made(1, 2, 8, 16), mask=made(8, 8, dtype=torch.bool)),
        [False, True, True],
    ),
    "wide": (lambda: asked(made(1, 2, 8, 300)), [False, False, False]),
    "odd": (lambda: asked(made(1, 2, 8, 20), causal=True), [True, False, False]),
    "groups": (
        lambda: asked(made(1, 8, 8, 16), made(1, 2, 8, 16), gqa=True),
        [True, GROUPED_EFFICIENT, True],
    ),
    "dropout": (lambda: asked(made(1, 2, 8, 16), dropout=0.1), [True, True, False]),
    "host": (lambda: asked(made(1, 2, 8, 16, device="cpu")), [False, False, False]),
}


@pytest.mark.parametrize(("ask", "answers"), CASES.values(), ids=CASES)
def test_a_program_learns_which_backends_can_run(returned, ask, answers):
    def program():
        made(1)  # names the device
        found = ask()
        with sdpa_kernel(SDPBackend.MATH):
            return found, ask()

    assert returned(program, "H100") == (answers, [False] * 3)


def test_a_program_learns_which_backend_is_selected(returned, capsys):
    def program():
        assert torch.backends.cuda.is_flash_attention_available()
        x = made(1, 2, 8, 16)
        found = [torch._fused_sdp_choice(x, x, x)]
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            found.append(torch._fused_sdp_choice(x, x, x, is_causal=True))
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), pytest.raises(RuntimeError) as error:
            torch._fused_sdp_choice(x.float(), x.float(), x.float())
        assert str(error.value) == "No available kernel. Aborting execution."
        host = made(1, 2, 8, 16, dtype=torch.float, device="cpu")
        found.append(torch._fused_sdp_choice(host, host, host))
        params = torch.backends.cuda.SDPAParams(*[x.float()] * 3, None, 0.0, False, False)
        torch.backends.cuda.can_use_flash_attention(params, debug=True)
        return found

    plain = torch.ones(1, 2, 8, 16)
    of_host = torch._fused_sdp_choice(plain, plain, plain)
    cudnn, efficient = SDPBackend.CUDNN_ATTENTION.value, SDPBackend.EFFICIENT_ATTENTION.value
    assert returned(program, "H100") == [cudnn, efficient, of_host]
    assert capsys.readouterr().err == (
        "Warning: flash attention: dtype float32 is not one of float16, bfloat16\n"
    )
