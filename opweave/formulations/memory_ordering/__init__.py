"""How memory ordering is written down: arrays (``instance.py``), programs for engines, reductions.

There is no ``shortage.py``, as nothing runs short but the limit, which bounds look at; no ``milp.py``, as there are two
programs of equal rank, ``pairwise.py`` and ``time_indexed.py``.
"""
