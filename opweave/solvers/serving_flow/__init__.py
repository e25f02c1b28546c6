"""Solvers of serving flows, in the same files as those of every problem.

There is no ``arrays.py``: the instance has them. There is no folder ``bounds``: ``bounds.py`` has both. There is no
``exact.py``: plans and bounds meet on most clusters, and engines are exact on small ones.
"""
