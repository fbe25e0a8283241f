"""Memory profiling: the memory of attention over the sequence length, measured and by theory.

The functions have the names of the reference documents. All sizes are bytes.
"""

from .linear import linear_attention_bidir, linear_attention_causal
from .memory_tracker import MemoryTracker, OutOfMemory, measure_memory
from .numpy_attention import (
    estimate_attention_memory,
    measure_attention_memory,
    profile_memory_scaling,
    standard_attention,
)
from .scaling_sweep import Peak, ScalingRow, memory_scaling, save_csv
from .theoretical_memory import theoretical_memory

__all__ = [
    "MemoryTracker",
    "OutOfMemory",
    "Peak",
    "ScalingRow",
    "estimate_attention_memory",
    "linear_attention_bidir",
    "linear_attention_causal",
    "measure_attention_memory",
    "measure_memory",
    "memory_scaling",
    "profile_memory_scaling",
    "save_csv",
    "standard_attention",
    "theoretical_memory",
]
