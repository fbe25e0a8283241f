"""The KV cache holds what its formula says, and ``generate()`` grows with the prompt as it should.

It runs on ``cpu``, ``simulated:H100`` and ``null:H100`` alike.
"""

from functools import partial

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from generation import CACHES, FORMULAS, SIZES, generate, model_of


@pytest.fixture(params=CACHES)
def kind(request):
    if request.param.endswith("hqq"):
        pytest.importorskip("hqq", reason="hqq is not installed")
    return request.param


def test_the_cache_is_its_formula(attnmem, kind):
    model = model_of(kind, attnmem.device)
    for N, T in ((16, 2), (64, 2), (64, 9)):
        found = attnmem.measure(generate, model, kind, 2, N, T)
        sizes = {**SIZES, "B": 2, "N": N, "T": T, "itemsize": 4}
        attnmem.check(found, FORMULAS[kind], metric="retained", exact=True, **sizes)


def test_the_peak_grows_with_the_prompt(attnmem, kind):
    run = partial(generate, model_of(kind, attnmem.device), kind, 2, T=2)
    peak = attnmem.growth(run, N=[1024, 1536, 2048, 2560])
    # The mask of a window is a matrix: it is not one that a kernel knows.
    peak.assert_within("O(N^2)" if kind == "sliding" else "O(N)")
