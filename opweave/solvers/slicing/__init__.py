"""Solvers of slicing, in the same files as those of every problem.

There is no ``exact.py``: ``chain.py`` is exact on a grid for chains, ``enumeration.py`` on tiny problems, and engines
on others.
"""
