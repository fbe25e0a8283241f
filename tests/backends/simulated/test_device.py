"""The device in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CASES = Path(__file__).with_name("device_cases.py")
QUADRATIC = 2 * 4 * 64 * 64 * 4
LINEAR = 2 * 4 * 64 * 32 * 4

EXPECTED = {
    "a_tensor_is_plain": [True, True, 24, True, True],
    "each_dtype_is_made": [
        "tensors of torch.bcomplex32 cannot be simulated; use backend='null' or 'cuda'"
    ]
    * hasattr(torch, "bcomplex32"),  # since 2.15
    "memory_ends_with_the_last_view": [400, 400, 0],
    "an_error_frees_what_it_leaves": 0,
    "a_size_that_values_tell_is_not_remembered": [4, 1, 4],
    "an_unknown_operator_is_told_each_time": [
        "no model of aten.linalg_matrix_exp.default; use backend='null' or 'cuda'"
    ]
    * 2,
    "values_are_read": [
        *(180.0, [[9.0, 12.0, 15.0], [12.0, 20.0, 28.0], [15.0, 28.0, 41.0]], True, True)
    ],
    "random_numbers_follow_the_seed": [True, False],
    "transforms_and_scripts_run_in_cpp": [48.0, [8, 3], 72.0],
    "a_storage_is_resized": [400, 0, 400],
    "a_target_grows": [[5], [2.0] * 5],
    "a_nested_tensor_is_refused": "CannotSimulate: aten._nested_tensor_from_tensor_list.default of"
    " a nested tensor cannot be simulated; use backend='null' or 'cuda'",
    "the_compiler_knows_the_functions_of_devices": True,
    "two_devices_do_not_mix": "RuntimeError: Expected all tensors to be on the same device, but"
    " found at least two devices, cuda:0 and cpu!",
    "an_operator_without_shapes_is_refused": "CannotSimulate: aten._to_sparse.default cannot be"
    " simulated: PyTorch has no rule of its shapes",
}


@pytest.fixture(scope="module")
def answers():
    """What the cases return in a process that has the device."""
    done = subprocess.run(
        [sys.executable, str(CASES)], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("case", EXPECTED)
def test_the_device_does_what_pytorchs_does(answers, case):
    assert answers[f"case_{case}"] == EXPECTED[case]


def test_gradients_are_added_in_place(answers):
    # h, its exponential, two sums and a gradient are alive at once, and the gradient of x is there.
    first, problem = answers["case_gradients_are_added_in_place"]
    assert (first % (256 * 256 * 4) < 16, problem) == (True, None)
    assert first // (256 * 256 * 4) == 4


def test_a_call_that_is_known_needs_as_much_as_the_first(answers):
    peaks = answers["case_calls_that_are_known_need_as_much"]
    assert peaks[0] == peaks[1] == peaks[2]
    assert peaks[0][0] >= 3 * QUADRATIC + 3 * LINEAR


def test_a_model_is_copied_and_saved(answers):
    assert answers["case_a_model_is_copied_and_saved"] == ["cuda:0", True]


def test_a_setting_that_changes_is_heard(answers):
    assert answers["case_a_setting_that_changes_is_heard"] == [True, False]


def test_a_program_that_names_no_device_is_on_this_one(answers):
    assert answers["case_a_program_that_names_no_device_is_on_this_one"] == "cuda:0"


def test_it_runs_out_of_memory(answers):
    text, needed = answers["case_it_runs_out_of_memory"]
    assert text == "CUDA out of memory. Tried to allocate 4096.00 GiB. GPU 0"
    assert needed.startswith("needs 4.0 TiB more at device_cases.py:")


def test_no_tensor_of_the_device_is_made_outside_a_window(answers):
    assert answers["outside"] == "Torch not compiled with CUDA enabled"
