"""Batched mapping written for solvers: arrays (``instance.py``), presolve, the paper's program, programs for engines.

``milp.py`` and ``cp.py`` are one file, ``programs.py``: both programs have the same rows but for what shares a device.
"""
