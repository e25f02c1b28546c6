"""Solvers of batched mapping, in the same files as those of every problem.

There is no ``exact.py``: proofs come from engines (``engines.py``), module by module (``split.py``), or from placement
(``unsplit.py``).
"""
