"""Compiled code of CUDA tensors: on a GPU, or with ``--attnmem-backend null:A100-80GB``."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def cuda():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, or the null device: --attnmem-backend null:A100-80GB")
