"""A PyTorch device whose tensors have storages of true size, and no memory.

The only folder that touches PyTorch's dispatcher and its tables; no operator has a meaning here.
"""
