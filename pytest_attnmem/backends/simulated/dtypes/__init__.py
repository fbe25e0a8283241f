"""The dtypes that CUDA's kernels refuse, as recorded from PyTorch on the null device."""
