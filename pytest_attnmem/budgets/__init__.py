"""Budgets: from the text of a limit to a verdict on a measurement. No pytest, no torch."""
