"""Memory ordering written for solvers: arrays (``instance.py``), the paper's and the pairs' program, fusion."""
