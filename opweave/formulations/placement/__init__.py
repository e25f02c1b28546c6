"""Placement written for solvers: arrays (``instance.py``), presolve, programs for engines, coarsening."""
