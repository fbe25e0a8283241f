"""Symbols: the names of sizes, and the values that users give them."""
