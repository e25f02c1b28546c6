"""Solvers of memory layout, in the same files as those of every problem.

There is no ``arrays.py``: the instance has them, and ``sections.py`` those of the exact search. There
is no folder ``bounds``: ``exact.py`` and ``pools.py`` prove theirs.
"""
