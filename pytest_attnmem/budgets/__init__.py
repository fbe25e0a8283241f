"""Budgets, from the text of a limit to the verdict on a measurement. No pytest, no torch."""
