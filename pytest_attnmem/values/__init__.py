"""Values on demand, for a device that computes nothing: operators are noted, and run when read."""
