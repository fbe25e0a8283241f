"""Values on demand: what a tensor of a device that computes nothing would hold."""
