"""Batched mapping written for solvers: arrays (``instance.py``), presolve, the paper's program, and exact times.

No ``milp.py`` and no ``cp.py``: ``diviml.py`` has the paper's program, as printed and corrected.
"""
