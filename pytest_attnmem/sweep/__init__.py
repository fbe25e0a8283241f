"""Attentions compared over sizes, as the reference benchmark compares them: time and memory."""
