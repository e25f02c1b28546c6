"""Solvers of placement, in the files that all problems have.

There is no ``exact.py``: ``decompose.py`` proves large graphs module by module, and engines prove small ones.
"""
