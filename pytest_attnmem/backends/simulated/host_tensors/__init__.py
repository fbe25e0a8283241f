"""The tensors of the host that CUDA's operators refuse, as recorded on the null device."""
