"""Tracers: which tensors are allocated, at which line and in which module."""
