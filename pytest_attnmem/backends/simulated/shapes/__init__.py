"""Shapes and layouts of results that PyTorch's rules for tensors without data get wrong."""
