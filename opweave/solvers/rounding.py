"""The rounding error of sums in floating point; :mod:`opweave.solvers.linear` says how bounds stay valid."""

SUMMATION = 1e-9
"""Relative allowance for sums of seconds of one sign; it covers nine million additions."""
