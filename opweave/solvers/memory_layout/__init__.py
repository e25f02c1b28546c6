"""Solvers of memory layout, in the same files as those of every problem.

There is no ``arrays.py``: the instance has them. There is no ``local.py``: search by separation (``separate.py``) is the
local search. There is no ``lanes.py``: the default solver runs alone.
"""
