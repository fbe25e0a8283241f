"""Symbols: the names of sizes, and their values."""
