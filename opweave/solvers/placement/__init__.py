"""Solvers of placement, in the files that all problems have.

There is no ``exact.py``: ``decompose.py`` proves large graphs module by module, ``small.py`` searches small ones whole.
"""
