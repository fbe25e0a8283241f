"""Convolutions as PyTorch runs them on CUDA: which library, in which layout, with what memory."""
