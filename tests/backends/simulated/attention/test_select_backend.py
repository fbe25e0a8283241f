"""The selected backend against PyTorch's own selection on the null device."""

from dataclasses import replace

import pytest
import torch
from recordings import VERSIONS

from pytest_attnmem.backends.simulated.attention.sdp_params import (
    CUDNN,
    EFFICIENT,
    FLASH,
    MATH,
    ORDER,
    OVERRIDEABLE,
    Described,
    SdpParams,
    Switches,
)
from pytest_attnmem.backends.simulated.attention.select_backend import (
    NO_BACKEND,
    NO_KERNEL,
    select_backend,
)
from pytest_attnmem.torch_releases import KNOWN, minor_version

from . import cases, random_questions
from .recordings import recorded

LETTERS = {MATH: "m", FLASH: "f", EFFICIENT: "e", CUDNN: "c"}
ONLY = Switches(False, False, False, False)
SETTINGS = {
    "all": Switches(),
    "no flash": Switches(flash=False),
    "no cudnn": Switches(cudnn=False),
    "efficient only": replace(ONLY, efficient=True),
    "flash only": replace(ONLY, flash=True),
    "cudnn only": replace(ONLY, cudnn=True),
    "efficient first": Switches(order=(EFFICIENT, MATH, FLASH, CUDNN, OVERRIDEABLE)),
    "deterministic": Switches(deterministic=True),
    "no grad": Switches(grad=False),
    "none": ONLY,
}


def described(tensor):
    if tensor is None:
        return None
    return Described(
        tuple(tensor.shape),
        tensor.stride(),
        str(tensor.dtype).removeprefix("torch."),
        tensor.storage_offset(),
        tensor.requires_grad,
    )


@pytest.fixture(scope="module")
def params():
    """Returns the parameters of all questions, on a device of compute capability 0."""
    return [
        SdpParams(
            *map(described, (query, key, value)),
            (0, 0),
            KNOWN[0],
            described(mask),
            case["dropout"],
            case["causal"],
            case["gqa"],
            SETTINGS[case["setting"]],
        )
        for case in cases.questions()
        for query, key, value, mask in [cases.inputs(case, "meta")]
    ]


def letter(choice):
    if choice.backend is None:
        return {NO_KERNEL: "x", NO_BACKEND: "-"}[choice.error]
    return LETTERS[choice.backend]


def wrong(params, real, capability, version):
    """Returns the questions with another answer than the recorded one, with both."""
    major, minor = map(int, capability.split("."))
    facts = {"capability": (major, minor), "version": minor_version(f"{version}.0")}
    asked = [replace(question, **facts) for question in params]
    mine = "".join(letter(select_backend(question)) for question in asked)
    found = zip(mine, real, asked, strict=True)
    return [(got, wanted, question) for got, wanted, question in found if got != wanted]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("capability", recorded("choices"))
def test_the_selected_backend_is_the_recorded_one(params, capability, version):
    """Includes cuDNN: PyTorch checks only the version that the runtime reports."""
    real = recorded("choices", version)[capability]
    assert len(real) > 4000
    assert wrong(params, real, capability, version) == []


def drawn_params(case):
    def facts(one, dtype):
        return Described(one["shape"], one["strides"], dtype, one["offset"], one["grad"])

    asked, mask = case["setting"], case["mask"]
    on = random_questions.BACKENDS if asked["order"] else asked["on"]
    switches = Switches(
        *(name in on for name in (FLASH, EFFICIENT, MATH, CUDNN)),
        order=(*asked["order"], OVERRIDEABLE) if asked["order"] else ORDER,
        deterministic=asked["deterministic"],
        grad=asked["grad"],
    )
    return SdpParams(
        *(facts(one, case["dtype"]) for one in case["tensors"]),
        (0, 0),
        KNOWN[0],
        mask and facts(mask, mask["dtype"]),
        case["dropout"],
        case["causal"],
        case["gqa"],
        switches,
    )


@pytest.fixture(scope="module")
def drawn():
    return [drawn_params(case) for case in random_questions.questions()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("capability", recorded("random"))
def test_the_backend_of_random_calls_is_the_recorded_one(drawn, capability, version):
    real = recorded("random", version)[capability]
    assert len(real) == random_questions.COUNT
    assert wrong(drawn, real, capability, version) == []


def question(dtype="float16", d=64, mask=False, kv_heads=4, capability=(8, 0), **others):
    query = Described((2, 4, 512, d), (4 * 512 * d, 512 * d, d, 1), dtype)
    key = replace(query, shape=(2, kv_heads, 512, d))
    given = Described((512, 512), (512, 1), dtype) if mask else None
    version = others.pop("version", KNOWN[0])
    return SdpParams(query, key, key, capability, version, given, enable_gqa=kv_heads < 4, **others)


@pytest.mark.parametrize(
    ("changed", "backend", "reason"),
    [
        ({"mask": True}, FLASH, "there is a mask"),
        ({"d": 288}, FLASH, "head dims [288, 288, 288]: need one, of at most 256"),
        ({"capability": (7, 5)}, FLASH, "needs compute capability 8.0 to 12.1, not 7.5"),
        ({"dtype": "float32"}, FLASH, "dtype float32 is not one of float16, bfloat16"),
        ({"kv_heads": 3}, FLASH, "the heads of k and v must divide those of q"),
        ({"switches": Switches(flash=False)}, FLASH, "switched off"),
        (
            {"d": 60, "switches": Switches(flash=False)},
            EFFICIENT,
            "head dims 60, 60 and 60: need multiples of 8, q's and k's the same",
        ),
        (
            {"kv_heads": 2, "dtype": "float32"},
            EFFICIENT,
            "q, k and v need the same number of heads",
        ),
        ({"capability": (9, 0), "dropout_p": 0.1}, CUDNN, "dropout is not a multiple of 1/16"),
        (
            {"capability": (10, 0), "d": 192},
            CUDNN,
            "head dims 192 and 192: need multiples of 8, at most 128",
        ),
        (
            {"capability": (9, 0), "switches": Switches(deterministic=True)},
            CUDNN,
            "cuDNN is not deterministic",
        ),
    ],
)
def test_a_rejected_backend_has_a_reason(changed, backend, reason):
    assert select_backend(question(**changed)).reasons[backend] == reason


def test_nested_tensors_use_the_math_backend():
    params = question()
    nested = replace(params, key=replace(params.key, nested=True))
    assert select_backend(nested).backend == MATH
    assert select_backend(nested).reasons[FLASH] == "nested tensors"


def test_the_selection_needs_no_torch():
    from pytest_attnmem.backends.simulated.attention import sdp_params as params
    from pytest_attnmem.backends.simulated.attention import select_backend as choice

    for module in (choice, params):
        assert torch not in vars(module).values()
