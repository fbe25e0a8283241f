"""A device beside the backends that stand for it: sixty workloads, measured on each."""
