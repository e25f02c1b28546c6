"""Memory layouts written for solvers: arrays (``instance.py``) and a program for engines.

No ``cp.py``: on twelve layouts in three pools, plans and bounds were no worse without a constraint program.
"""
