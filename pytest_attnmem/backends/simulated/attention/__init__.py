"""``scaled_dot_product_attention`` on a CUDA device: its backend, and rules for its operators.

A module of this folder that has ``RULES`` is found by ``op_rules``; it needs no entry anywhere.
"""
