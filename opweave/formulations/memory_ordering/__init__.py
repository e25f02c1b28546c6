"""Memory ordering written for solvers: arrays (``instance.py``), the paper's and the pairs' program, fusion.

No ``cp.py``: on five networks the pairs' program proved all, a constraint program one.
"""
