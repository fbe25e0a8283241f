"""Rules for operators: what they allocate on CUDA, in order, scratch included.

A module of this folder that has ``RULES`` is found by ``op_rules``; it needs no entry anywhere.
"""
