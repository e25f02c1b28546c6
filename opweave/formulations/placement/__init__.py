"""How placement is written down: arrays (``instance.py``), presolve, programs for engines, coarsening."""
