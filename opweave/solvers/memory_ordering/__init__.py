"""Solvers of memory ordering, in the files that all problems have.

There is no ``local.py``: local search is a stage of ``exact.py`` (``improve.py``) and of ``totals.py`` (``shift.py``).
"""
