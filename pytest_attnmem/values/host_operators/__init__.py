"""Operators of CUDA that the CPU lacks, or whose outputs differ there, one family a file."""
