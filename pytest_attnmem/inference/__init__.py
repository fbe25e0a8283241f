"""Inference of a transformer: its weights, its cache, its FLOPs and its limits on a device."""
