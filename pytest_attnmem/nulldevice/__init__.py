"""A CUDA runtime that computes nothing, under the unmodified CUDA build of PyTorch.

Device memory is address space of a stated capacity; kernels and products return at once. PyTorch's
dispatcher, its caching allocator and its kernels' scratch are the real ones.
"""
