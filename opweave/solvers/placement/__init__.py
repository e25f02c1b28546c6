"""Solvers of placement, in the files that all problems have.

There is no ``exact.py``: ``decompose.py`` proves graphs module by module, and engines prove them as a whole.
"""
