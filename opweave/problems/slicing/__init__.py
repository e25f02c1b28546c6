"""Slicing: in which parts every operator is cut among devices that share one input."""
