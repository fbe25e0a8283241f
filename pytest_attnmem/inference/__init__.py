"""Inference of a transformer: its weights, cache, FLOPs and what bounds it."""
