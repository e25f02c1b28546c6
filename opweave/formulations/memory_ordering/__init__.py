"""Memory ordering written for solvers: arrays (``instance.py``), programs for engines, reductions.

There is no ``shortage.py``, because only the limit can be short, and bounds check it. There is no ``milp.py``, because
there are two programs of equal rank, ``pairwise.py`` and ``ordering_ilp.py``.
"""
