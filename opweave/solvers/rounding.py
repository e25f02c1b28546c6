"""What sums in floating point may be off by; :mod:`opweave.solvers.linear` says how bounds stay safe."""

SUMMATION = 1e-9
"""Relative allowance for sums of seconds of one sign; it covers nine million additions."""
