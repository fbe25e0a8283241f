"""A CUDA runtime that computes nothing, under the unmodified CUDA build of PyTorch.

Device memory is address space with a stated capacity; kernels and products return at once.
PyTorch's dispatcher, caching allocator and scratch allocations are the real ones.
"""
