"""How batched mapping is written down: arrays (``instance.py``), presolve, programs for engines, one placement."""
