"""Solvers of memory ordering, in the same files as those of every problem.

There is no ``local.py``: local search is a stage of ``exact.py`` (``improve.py``) and of ``totals.py``. There is no
``plans.py``: an order needs no class of its own, and ``arrays.py`` judges it.
"""
