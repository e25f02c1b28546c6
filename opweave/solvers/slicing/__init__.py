"""Solvers of slicing, in the files that all problems have.

There is no ``exact.py``: ``chain.py`` and ``enumeration.py`` are exact on chains and on tiny problems, engines else.
"""
