"""Sweeps that compare the time and memory of attentions over sizes, as the reference benchmark."""
