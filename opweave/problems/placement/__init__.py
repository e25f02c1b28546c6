"""Placement: the device of every operator, and its start."""
