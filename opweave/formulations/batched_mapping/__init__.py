"""Batched mapping written for solvers: arrays (``instance.py``), presolve, the paper's program, and exact times."""
