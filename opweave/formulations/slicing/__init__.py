"""How slicing is written down: arrays (``instance.py``), presolve, programs over cuts for engines."""
