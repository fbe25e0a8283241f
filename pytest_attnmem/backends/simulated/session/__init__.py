"""One device of a process, in and outside of windows, and where a program's tensors are."""
