"""Backends: how memory is observed on a kind of device."""
