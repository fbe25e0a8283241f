"""The search for the commit since which a test needs more memory."""
