"""Baselines: entries, their file, and the text of a regression. No pytest."""
