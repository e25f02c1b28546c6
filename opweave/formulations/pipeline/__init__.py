"""Pipelines written for solvers: arrays (``instance.py``), presolve, the paper's partition graph, a flow program."""
