"""Batched mapping written for solvers: arrays (``instance.py``), presolve, programs for engines, unsplit placements."""
