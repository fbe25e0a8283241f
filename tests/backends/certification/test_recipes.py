"""The recipes of the package: the recorded calls, as lines."""

import pytest
import recipes as recorded
import recordings

from pytest_attnmem.backends.certification.described import arguments, operator
from pytest_attnmem.backends.certification.recipes import (
    CHOICE,
    FILE,
    Recipe,
    lines_by_operator,
    parse,
    recipes,
    text_of_recipes,
    vouching,
)

LINES = text_of_recipes().splitlines()


def test_the_file_has_every_recorded_call():
    assert [*map(str, recorded.from_recordings())] == LINES
    assert len(LINES) > 9000


def test_the_file_is_small():
    assert FILE.stat().st_size < 100 << 10


def test_a_line_is_a_call():
    assert [str(one) for one in recipes()] == LINES
    assert "aten.mm.default('float32[64, 64]', 'float32[64, 64]')" in LINES


def test_what_is_special_about_a_call_stands_behind_it():
    made = Recipe("aten.mm.default", ("float32[2, 2]", float("inf")), {"a": [1, None]}, cold=True,
                  ieee=True, period=3, on=("H100", "T4"))  # fmt: skip
    line = "aten.mm.default('float32[2, 2]', 1e999, a=[1, None])  # cold ieee period=3 on H100 T4"
    assert str(made) == line
    assert parse(line) == made
    assert made.runs_on("T4")
    assert not made.runs_on("B200")


def test_a_line_that_is_no_call_is_refused():
    with pytest.raises(ValueError, match=r"^not a call: 1 \+ 2$"):
        parse("1 + 2")


@pytest.mark.parametrize("op", ["aten._softmax.default", "aten.index.Tensor"])
def test_arguments_are_made_from_their_text(op):
    for recipe in map(parse, lines_by_operator()[op][:5]):
        args, kwargs = arguments(recipe, "meta")
        assert operator(op)(*args, **kwargs) is not None


def test_a_tensor_has_its_layout_and_its_place():
    texts = ("float16[2, 3](1, 4)@5", "host int64[]", ["torch.int32", "mean"], "grad float32[2]")
    (tensor, seed, (dtype, word), leaf), _ = arguments(Recipe("x", texts), "meta")
    assert leaf.requires_grad
    assert (tensor.shape, tensor.stride(), tensor.storage_offset()) == ((2, 3), (1, 4), 5)
    assert (seed.device.type, str(dtype), word) == ("cpu", "torch.int32", "mean")


def test_data_counts_up_to_its_period():
    (numbers, mask), _ = arguments(Recipe("x", ("int64[5]", "bool[4]"), period=3), "cpu")
    assert numbers.tolist() == [0, 1, 2, 0, 1]
    assert mask.tolist() == [True, False, False, True]


def test_an_operator_without_calls_is_vouched_for_by_its_kin():
    assert vouching("aten.mm.default") == ("aten.mm.default",)
    assert "aten.addmm.default" in vouching("aten.addmm.out")
    assert vouching("aten._safe_softmax.default") == ("aten._safe_softmax.default", CHOICE)
    assert vouching("aten.no_such_operator.default") == ()


@pytest.mark.parametrize(
    ("since", "version", "changed"),
    [
        (
            "2.13",
            "2.14",
            {
                *("native_group_norm_backward.default", "_efficient_attention_forward"),
                *("_scaled_dot_product_efficient_attention", "_fused_sdp_choice"),
            },
        ),
        (
            "2.14",
            "2.15",
            {
                *("mm.default", "mm.out", "mm.dtype", "bmm.default", "bmm.out", "bmm.dtype"),
                *("addmm.default", "addmm_.default", "_addmm_activation.default", "mv.default"),
                *("baddbmm.default", "baddbmm_.default", "addmv.default", "dot.default"),
                *("_cdist_forward.default", "_euclidean_dist.default", "multinomial.default"),
                *("native_group_norm.default", "native_group_norm_backward.default"),
                *("native_layer_norm_backward.default", "_foreach_norm.Scalar"),
                *("repeat_interleave.Tensor", "_fused_sdp_choice"),
            },
        ),
    ],
)
def test_what_a_release_changed(since, version, changed):
    """The rules of a version give its recorded traces, so these are what ``certify`` refuses.

    Convolutions have other plans by another cuDNN, which is asked, and no other rules.
    """
    found = set()
    for name in recorded.ROWS:
        rows = zip(*(recordings.read(name, one)["calls"] for one in (since, version)), strict=True)
        for old, new in rows:
            if any(old.get(key) != new.get(key) for key in ("trace", "traces")):
                found.add(old["op"].removeprefix("aten."))
    for name in ("attention-choices", "attention-random"):
        old, new = (recordings.read(name, one)["devices"] for one in (since, version))
        found |= {"_fused_sdp_choice"} if old != new else set()
    old, new = (recordings.read("attention-operators", one)["devices"] for one in (since, version))
    for device, rows in old.items():
        pairs = zip(rows, new[device], strict=True)
        found |= {before[0] for before, after in pairs if before != after}
    assert found - {"convolution.default", "convolution_backward.default"} == changed
