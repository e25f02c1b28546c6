"""Solvers of memory ordering, in the same files as those of every problem.

There is no
``plans.py``: an order needs no class of its own, and ``arrays.py`` judges it.
"""
