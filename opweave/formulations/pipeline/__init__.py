"""Pipelines written for solvers: arrays (``instance.py``), presolve, the paper's partition graph, a flow program.

The program is ``flow.py``, so there is no ``milp.py``; no ``cp.py``, since the exact search proves pipelines.
"""
