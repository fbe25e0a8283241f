"""What a program asks of ``torch.cuda``: streams, counters, compilers, and what is refused."""
