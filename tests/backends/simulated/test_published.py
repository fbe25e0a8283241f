"""Attention's memory as papers and threads published it, against the models."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

import published
from published import GIB, MIB

pytestmark = pytest.mark.usefixtures("kept_workspaces")


@pytest.mark.parametrize("row", published.FLASH_PAPER)
def test_the_closed_forms_give_the_flash_papers_table(row):
    found = [published.closed_form(row, length) for length in published.FLASH_LENGTHS]
    assert [each and each // MIB for each in found] == [*published.FLASH_PAPER[row]]


@pytest.mark.parametrize(
    ("row", "mib"),
    [
        # 16.25 MiB are workspaces of cuBLAS, and PyTorch's operators have changed since 2022.
        ("PyTorch", (48, 112, 336, 1168, 4368, 16912, None, None, None, None)),
        ("FlashAttention", (22, 44, 88, 176, 352, 704, 1408, 2816, 5632, 11264)),
    ],
)
def test_the_papers_benchmark_runs_out_of_memory_at_the_same_lengths(row, mib):
    found = [published.flash_paper(row, length) for length in published.FLASH_LENGTHS]
    assert tuple(each and each // MIB for each in found) == mib


def agreeing(row, values):
    """Returns the exponents of the lengths at which every published digit agrees."""
    lengths, texts = published.MEMORY_EFFICIENT_LENGTHS, published.RABE_STAATS[row]
    return [
        length.bit_length() - 1
        for length, text, value in zip(lengths, texts, values, strict=True)
        if published.written(value, text) == (text or "OOM")
    ]


@pytest.mark.parametrize(
    ("row", "powers"),
    [
        ("inference, standard", [10, 12, 14, 16, 18, 20]),
        ("gradient, standard", [10, 12, 14, 16, 18, 20]),
        ("inference, memory-efficient", [12]),  # one chunk of keys; longer rows are merged
        ("gradient, memory-efficient", []),  # another algorithm
    ],
)
def test_the_bundled_kernels_against_memory_efficient_attention(row, powers):
    lengths = published.MEMORY_EFFICIENT_LENGTHS
    assert agreeing(row, [published.overhead(row, length) for length in lengths]) == powers


@pytest.mark.parametrize(("row", "factor"), [("inference", 4), ("gradient", 8)])
def test_standard_attention_needs_only_the_scores(row, factor):
    nbytes = published.overhead(f"{row}, standard", 1 << 12)
    loss = 4 if row == "gradient" else 0
    assert nbytes == factor * (1 << 24) + loss


def test_the_papers_own_algorithm_gives_its_digits():
    model = published.AS_PUBLISHED
    found = [
        published.beside_outputs(model, length) for length in published.MEMORY_EFFICIENT_LENGTHS
    ]
    assert agreeing("inference, memory-efficient", found) == [12, 14, 18, 20]


@pytest.mark.parametrize(
    ("nbytes", "as_in", "text"),
    [
        (None, "1G", "OOM"),
        (MIB, None, "1.0M"),
        (270 * 1024, "270K", "270K"),
        (GIB, "2.0G", "1.0G"),
        (17 * MIB + 5, "16M", "17M"),
    ],
)
def test_bytes_are_written_as_in_the_paper(nbytes, as_in, text):
    assert published.written(nbytes, as_in) == text


def test_flash_on_another_device_differs_by_a_constant():
    less = [
        theirs - published.unsloth("flash", length) / GIB
        for length, theirs in zip(
            published.UNSLOTH_LENGTHS, published.UNSLOTH["flash"], strict=True
        )
    ]
    # Published to the hundredth: one number fits all three if they are at most 0.01 apart.
    assert max(less) - min(less) <= 0.01


def test_the_scores_of_math_on_another_device_are_the_same():
    def quadratic(one, two, four):
        return ((four - two) - 2 * (two - one)) / 6

    ours = [published.unsloth("math", length) / GIB for length in published.UNSLOTH_LENGTHS]
    assert quadratic(*ours) == 0.5
    assert round(quadratic(*published.UNSLOTH["math"]), 2) == 0.5


@pytest.mark.parametrize(
    ("capability", "row"),
    [(one, row) for several, row in published.CHOICES.items() for one in several],
)
def test_attention_takes_the_backend_of_the_table(capability, row):
    assert published.chosen(capability) == row


@pytest.mark.parametrize("on", published.WORKSPACES)
def test_each_thread_has_a_workspace(on):
    nbytes = published.WORKSPACES[on]
    assert published.workspaces(on) == (nbytes, 2 * nbytes)
