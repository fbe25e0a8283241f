"""Measurements: windows, the tensors in them, and the protocol of a backend."""
