"""Formulas and polynomials: parsed, evaluated and fitted exactly."""
