"""The components of a peak, which sum to it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.measurement.held import SCRATCH_SUFFIX, Held
from pytest_attnmem.measurement.peak_components import SCRATCH, UNSEEN, WORKSPACES, decompose
from pytest_attnmem.sweep.runner import with_dimensions

SYMBOLS = {"B": 2, "H": 4, "N": 256, "M": 256, "d": 16, "dv": 16, "itemsize": 4}
WARM = "copies of a warm-up, and their gradients"
MATRIX, ROWS, TENSOR = (2, 4, 256, 256), (2, 4, 256, 1), (2, 4, 256, 16)


def held(shape, op, itemsize=4, dtype="float32", nbytes=None):
    size = itemsize
    for extent in shape:
        size *= extent
    scratch = op.endswith(SCRATCH_SUFFIX)
    return Held(size if nbytes is None else nbytes, shape, dtype, op, "", scratch=scratch)


def named(alive, **options):
    return {part.name: part for part in decompose(known(alive), **options)}


def known(alive, symbols=SYMBOLS):
    """The tensors of stages, with their dimensions."""
    return {stage: [with_dimensions(one, symbols) for one in made] for stage, made in alive.items()}


@pytest.mark.parametrize(
    ("stage", "tensor", "name", "growth"),
    [
        ("inputs", held(TENSOR, "randn"), "inputs q, k, v", "O(B·H·N·d)"),
        ("inputs", held((256, 256), "tril"), "mask", "O(N²)"),
        ("forward", held((1, 256, 256), "eq", 1, "bool"), "mask", "O(N²)"),
        ("warm-up", held(TENSOR, "clone"), WARM, "O(B·H·N·d)"),
        ("warm-up backward", held((8, 256, 16), "bmm"), WARM, "O(B·H·N·d)"),
        ("copies", held(TENSOR, "clone"), "copies of q, k, v", "O(B·H·N·d)"),
        ("forward", held(MATRIX, "exp"), "scores", "O(B·H·N²)"),
        ("forward", held(MATRIX, "softmax"), "probabilities", "O(B·H·N²)"),
        ("forward", held(ROWS, "sum"), "rows: maxima, sums", "O(B·H·N)"),
        ("forward", held((8, 256, 16), "bmm"), "output", "O(B·H·N·d)"),
        ("forward", held((7, 3), "cat"), "other tensors", ""),
        ("upstream gradient", held(TENSOR, "randn_like"), "upstream gradient dO", "O(B·H·N·d)"),
        ("backward", held((8, 256, 256), "bmm"), "intermediate gradients", "O(B·H·N²)"),
        ("backward", held(ROWS, "sum"), "intermediate gradients", "O(B·H·N)"),
        ("backward", held((8, 16, 256), "bmm"), "gradients dQ, dK, dV", "O(B·H·N·d)"),
        ("", held(MATRIX, "softmax"), "softmax [B, H, N, N]", "O(B·H·N²)"),
        ("", held(MATRIX, "repeat"), "repeat [B, H, N, N]", "O(B·H·N²)"),
        ("", held((7, 3), "cat"), "cat [7, 3]", ""),
        ("", replace(held((7, 3), "empty"), role="parameter"), "parameters", ""),
        ("", Held(8, (), "", "(not by an operator)", ""), "(not by an operator)", ""),
        ("forward", held((), "sort (scratch)", nbytes=512), SCRATCH, ""),
    ],
)  # fmt: skip
def test_the_component_of_a_tensor(stage, tensor, name, growth):
    (part,) = decompose({stage: [with_dimensions(tensor, SYMBOLS)]})
    assert (part.name, part.growth) == (name, growth)
    assert (part.nbytes, part.count) == (tensor.nbytes, 1)


def test_softmax_written_out_ends_in_a_division():
    both = [held(MATRIX, "div"), held(MATRIX, "exp"), held(MATRIX, "div")]
    parts = named({"forward": both})
    assert (parts["scores"].count, parts["probabilities"].count) == (2, 1)
    assert named({"forward": [held(MATRIX, "exp")]}).keys() == {"scores"}


def test_scratch_as_large_as_what_its_operator_makes_grows_with_it():
    made = held(MATRIX, "softmax_backward_data")
    scratch = held((), "softmax_backward_data (scratch)", dtype="", nbytes=made.nbytes)
    part = named({"backward": [made, scratch]})[SCRATCH]
    assert (part.growth, part.formula) == ("O(B·H·N²)", "4*B*H*N^2")
    other = held((), "bmm (scratch)", dtype="", nbytes=made.nbytes)
    assert named({"backward": [made, other]})[SCRATCH].formula == str(made.nbytes)


def test_scratch_is_recognised_by_its_field_and_not_by_the_name_of_its_operator():
    named_so = Held(512, (128,), "float32", "my (scratch)", "")
    assert SCRATCH not in named({"": [named_so]})
    assert named({"": [Held.of_scratch(512, "sort", "")]}).keys() == {SCRATCH}


def test_sizes_and_factors_of_one_are_not_written() -> None:
    scores = {"forward": [held((2, 1, 64, 64), "exp")]}
    (part,) = decompose(known(scores, {"B": 2, "H": 1, "N": 64}))
    assert (part.growth, part.formula) == ("O(B·N²)", "4*B*N^2")
    (part,) = decompose(known({"inputs": [held((64, 64), "ge", 1)]}, {"N": 64}))
    assert (part.name, part.growth, part.formula) == ("mask", "O(N²)", "N^2")


def test_workspaces_and_bytes_without_a_tensor():
    parts = named({"inputs": [held(TENSOR, "randn")]}, peak_bytes=10**6, workspace_bytes=1000)
    assert parts[WORKSPACES].nbytes == 1000
    assert parts[UNSEEN].nbytes == 10**6 - 1000 - 2 * 4 * 256 * 16 * 4
    assert sum(part.nbytes for part in parts.values()) == 10**6


SHAPES = st.sampled_from([MATRIX, ROWS, TENSOR, (256, 256), (8, 256, 256), (128, 3), ()])
STAGES = st.sampled_from(["", "inputs", "warm-up", "copies", "forward", "backward"])
OPS = st.sampled_from(["bmm", "softmax", "div", "exp", "bmm (scratch)"])


@given(st.dictionaries(STAGES, st.lists(st.builds(held, SHAPES, OPS, st.sampled_from([1, 2, 4])))))
def test_components_sum_to_all_of_it_and_so_do_their_formulas(alive):
    tensors = [tensor for stage in alive.values() for tensor in stage]
    parts = decompose(known(alive))
    assert sum(part.nbytes for part in parts) == sum(tensor.nbytes for tensor in tensors)
    assert sum(part.count for part in parts) == len(tensors)
    assert [part.nbytes for part in parts] == sorted((part.nbytes for part in parts), reverse=True)
    for part in parts:
        assert parse_formula(part.formula).evaluate(SYMBOLS) == part.nbytes
