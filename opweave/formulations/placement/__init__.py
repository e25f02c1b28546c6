"""Placement written for solvers: arrays (``instance.py``), presolve, programs for engines, coarsening.

``milp.py`` and ``cp.py`` are one file, ``programs.py``: both programs have the same rows but for what shares a device.
"""
