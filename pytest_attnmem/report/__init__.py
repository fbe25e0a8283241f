"""Reports: a summary as text of one kind or another."""
