"""Holds the rules of operators to PyTorch's own CUDA code on null: ``attnmem certify``."""
