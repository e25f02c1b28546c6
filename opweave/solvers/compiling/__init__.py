"""Compiling loops beside the solve, storing and loading them; the entry point is :mod:`opweave.solvers.compiled`."""
