"""Placement: which device runs which operator, and when."""
