"""Whole models: what a training step or an inference needs, module by module and term by term."""
