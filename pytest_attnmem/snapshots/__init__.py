"""Snapshots of PyTorch's allocator: read safely, without torch, compared and replayed."""
