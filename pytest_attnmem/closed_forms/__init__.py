"""Closed forms: the peak of a program as a polynomial in its sizes."""
