"""The bundled Triton kernel is compiled, and the real allocator's peak is its model's."""

import pytest

SCRIPT = """
import torch
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.kernels import flash_triton, _flash_triton_programs
from pytest_attnmem.measurement.window_stack import window
from pytest_attnmem.symbols.attention_shape import Source, gather

for name in ("forward", "query_gradient", "key_gradients"):
    tuned = getattr(_flash_triton_programs, name)
    tuned.configs = tuned.configs[-1:]  # one is enough, and compiles in a second
backend = open_backend("null")
backend.prime()

def run(training, causal, leaves):
    for x in leaves:
        x.grad = None
    if training:
        flash_triton.attention(*leaves, causal=causal).sum().backward()
        return None
    with torch.no_grad():
        return flash_triton.attention(*leaves, causal=causal)

pairs = []
for B, H, N, M, d, dv in [(2, 4, 256, 300, 64, 64), (1, 2, 100, 33, 40, 16), (1, 1, 1, 1, 1, 1)]:
    for training in (False, True):
        leaves = [
            torch.zeros(B, H, *s, dtype=DTYPE, device="cuda", requires_grad=training)
            for s in ((N, d), (M, d), (M, dv))
        ]
        run(training, CAUSAL, leaves)  # compiles
        for x in leaves:
            x.grad = None
        with window(backend) as seen:
            kept = run(training, CAUSAL, leaves)
        del kept
        sizes = {"B": B, "H": H, "N": N, "M": M, "d": d, "dv": dv, "dtype": DTYPE}
        model = getattr(flash_triton.MODEL, "training" if training else "forward")
        shape = gather([Source("the test", sizes)])
        pairs.append((seen.measurement.peak_bytes, model.peak(shape, backend.kinds)))
answer(*pairs)
"""


@pytest.mark.parametrize(("dtype", "causal"), [("float16", False), ("float32", True)])
def test_the_model_is_the_allocators_peak(dtype, causal, under, tmp_path):
    pytest.importorskip("triton")
    script = SCRIPT.replace("DTYPE", f"torch.{dtype}").replace("CAUSAL", str(causal))
    pairs = under(script, TRITON_CACHE_DIR=str(tmp_path))
    assert len(pairs) == 6
    for measured, modelled in pairs:
        assert measured == modelled
