"""Slicing written for solvers: arrays (``instance.py``), presolve, programs over cuts for engines."""
