"""Slicing written for solvers: arrays (``instance.py``), presolve, programs over cuts for engines.

No ``cp.py``: HiGHS on the cuts was faster than a constraint program on nine of ten small instances.
"""
