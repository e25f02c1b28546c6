"""Memory orderings written for solvers: arrays (``instance.py``), the paper's program, and its fusion.

No ``milp.py`` and no ``cp.py``: the exact search proves orders in seconds that neither proved in minutes.
"""
